import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AUDIENCE, ISSUER } from '../bench-tokens.ts'
import { type Child, startChild } from '../child.ts'
import type { Contender, Ground, RunningContender } from '../contender.ts'

const YOUNG = ['--min-semi-space-size=32', '--max-semi-space-size=32']

const MANY = 1_000_000_000

/** As the demonstration's table, with limits that are never reached: every request is counted, none is refused. */
const LIMITS = {
  limits: [
    { path: '/api/balance', limit: MANY, window: '1m', purpose: 'Counted for the benchmark' },
    { path: '/api/transfer', limit: MANY, window: '1h', purpose: 'Counted and journalled for the benchmark' },
  ],
}
const ROUTES = [
  { path: '/api/balance', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: '/api/accounts', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: '/api/data', methods: ['GET'], auth: ['bearer'], scopes: ['a:r'] },
  { path: '/api/transfer', methods: ['POST'], auth: ['bearer'], scopes: ['t:w'] },
]

/** This gateway, from the tree at `root`. @param execArgv options of Node itself, such as a profiler's */
export function gateway(options: {
  readonly name: string
  readonly root: string
  readonly execArgv?: readonly string[]
}): Contender {
  const { name, root, execArgv = [] } = options
  return {
    name,
    work: 'token verified (cache), scope, exact limit, two audit records, metrics, six headers, id, trace',
    authenticates: true,
    version: () => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version,
    start: (ground) => start({ root, execArgv }, ground),
  }
}

async function start(
  program: { readonly root: string; readonly execArgv: readonly string[] },
  ground: Ground,
): Promise<RunningContender> {
  const { dir, upstreamPort } = ground
  const auditFile = join(dir, 'audit.ndjson')
  const write = (name: string, value: object) => {
    const file = join(dir, name)
    writeFileSync(file, JSON.stringify(value))
    return file
  }
  const upstream = `http://127.0.0.1:${upstreamPort}`
  const child = startChild({
    // As `npm run gateway` does.
    command: [process.execPath, ...program.execArgv, ...YOUNG, join(program.root, 'gateway/main.ts')],
    cpus: ground.cpus,
    env: {
      NODE_ENV: 'production',
      GATEWAY_CONFIG: write('gateway.json', { upstream, issuer: ISSUER, audience: AUDIENCE, routes: ROUTES }),
      GATEWAY_LIMITS: write('limits.json', LIMITS),
      GATEWAY_AUDIT_FILE: auditFile,
      GATEWAY_DATA_DIR: join(dir, 'data'),
      GATEWAY_PORT: '0',
      GATEWAY_ADMIN_PORT: '0',
      ...ground.gatewayEnv,
    },
  })
  return {
    ports: [await portOf(child)],
    pids: [child.pid],
    tidy: () => rotate(child, auditFile),
    end: child.end,
  }
}

/** The gateway says where it listens; rejects with its own words when it does not get so far. */
function portOf(child: Child): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    child.process.stderr?.on('data', (piece: string) => {
      text += piece
      const line = text.split('\n').find((one) => one.includes('"msg":"listening"'))
      if (line !== undefined) resolve((JSON.parse(line) as { port: number }).port)
    })
    child.process.once('exit', () => reject(new Error(child.said().trim().slice(0, 500))))
  })
}

/** SIGHUP makes the gateway open its trail anew. What it still writes to the old file goes with it. */
function rotate(child: Child, auditFile: string): void {
  if (statSync(auditFile).size === 0) return
  renameSync(auditFile, `${auditFile}.old`)
  child.process.kill('SIGHUP')
  rmSync(`${auditFile}.old`)
}
