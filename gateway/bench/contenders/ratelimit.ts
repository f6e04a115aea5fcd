import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { listening, startChild, versionOf } from '../child.ts'
import type { Contender, ContenderSetup, RunningContender } from '../contender.ts'
import { freePort } from '../unused-port.ts'

const DOMAIN = 'bench'
const CONFIG = `domain: ${DOMAIN}
descriptors:
  - key: caller
    rate_limit:
      unit: minute
      requests_per_unit: 1000000000
`

/** envoyproxy/ratelimit by HTTP: a fixed window per minute, in the store that GATEWAY_STORE names. */
export function ratelimit(program: string): Contender {
  const file = fileOf(program)
  return {
    name: 'envoyproxy/ratelimit',
    work: 'decides only: fixed window per minute in Redis, asked by HTTP with JSON',
    authenticates: false,
    request: {
      method: 'POST',
      path: '/json',
      body: JSON.stringify({
        domain: DOMAIN,
        descriptors: [{ entries: [{ key: 'caller', value: '$caller' }] }],
      }),
      responseBytes: undefined,
    },
    // Only `go version` can tell the version.
    version: () =>
      file === undefined
        ? undefined
        : (versionOf(['go', 'version', '-m', file], /\bmod\s+\S+\s+(\S+)/) ?? 'unknown'),
    start: (setup) => start(file ?? program, setup),
  }
}

/** The file that a shell would run, if there is one. */
function fileOf(program: string): string | undefined {
  const files = program.includes('/')
    ? [resolve(program)]
    : (process.env.PATH ?? '').split(delimiter).map((dir) => join(dir, program))
  return files.find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

async function start(file: string, setup: ContenderSetup): Promise<RunningContender> {
  const [port, grpcPort, debugPort] = [await freePort(), await freePort(), await freePort()]
  const configDir = join(setup.dir, 'ratelimit', 'config')
  mkdirSync(configDir, { recursive: true })
  writeFileSync(join(configDir, 'bench.yaml'), CONFIG)
  const child = startChild({
    command: [file],
    cpus: setup.cpus,
    env: {
      HOST: '127.0.0.1',
      PORT: `${port}`,
      GRPC_HOST: '127.0.0.1',
      GRPC_PORT: `${grpcPort}`,
      DEBUG_HOST: '127.0.0.1',
      DEBUG_PORT: `${debugPort}`,
      USE_STATSD: 'false',
      LOG_LEVEL: 'error',
      RUNTIME_ROOT: setup.dir,
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_WATCH_ROOT: 'false',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: (setup.gatewayEnv.GATEWAY_STORE ?? '').replace('redis://', ''),
    },
  })
  await listening(child, port)
  return { ports: [port], pids: [child.pid], tidy: () => {}, end: child.end }
}
