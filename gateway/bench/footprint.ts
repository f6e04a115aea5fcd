import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { makeTokens, type Tokens } from './bench-tokens.ts'
import { type Child, firstMessage, startChild } from './child.ts'
import type { ContenderSetup } from './contender.ts'
import { gateway, portOf } from './contenders/countersign.ts'
import { machineFacts } from './facts.ts'
import { familyOf, residentBytesOf } from './kernel.ts'
import { carryOut } from './measure.ts'
import { spreadOf } from './statistics.ts'
import { RESPONSE_BYTES } from './upstream-responses.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COMPILED = 'dist/gateway/main.js'
const CONNECTIONS = 64
/** The time after the start in which the gateway makes its signing keys. */
const SETTLE_MS = 3000
const WARM_UP_MS = 500

/** The least program on Node: it only listens. */
const BARE = `const { createServer } = require('node:net')
createServer((socket) => socket.destroy()).listen(0, () => process.stderr.write('{"msg":"listening"}\\n'))`

interface Row {
  readonly name: string
  readonly readyMs: readonly number[]
  readonly idleBytes: number
  /** Resident after the load, and after a pause (`laterBytes`); not for a bare Node. */
  readonly loaded?: { readonly bytes: number; readonly laterBytes: number; readonly cpuUs: number }
}

await main()

/** `npm run bench:footprint`: memory and start time of an installed gateway in both profiles, beside a bare Node. */
async function main(): Promise<void> {
  const facts = machineFacts().map((fact) => fact.join(': '))
  const { values } = parseArgs({
    options: {
      starts: { type: 'string', default: '10' },
      seconds: { type: 'string', default: '10' },
      pause: { type: 'string', default: '30' },
    },
  })
  const [starts, seconds, pause] = [values.starts, values.seconds, values.pause].map(Number) as [
    number,
    number,
    number,
  ]
  if (!existsSync(join(ROOT, COMPILED))) throw new Error(`${COMPILED} is missing: npm run build`)
  const dir = mkdtempSync(join(tmpdir(), 'countersign-footprint-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  const tokens = makeTokens(dir, { RS256: CONNECTIONS, ES256: 2 })
  const program = (name: string, ...args: string[]) =>
    startChild({
      command: [process.execPath, join(import.meta.dirname, name), ...args],
      cpus: undefined,
      ipc: true,
    })
  const { port: upstreamPort } = await firstMessage<{ port: number }>(
    program('bench-upstream.ts', tokens.jwksFile),
  )
  const load = program('load.ts')
  const rows: Row[] = [await bare(starts)]
  for (const profile of ['fast', 'small'])
    rows.push(await measure(profile, { dir, tokens, upstreamPort, load, starts, seconds, pause }))
  process.stdout.write(`${facts.join('; ')}\n\n${table(rows, seconds, pause)}\n`)
  process.exit(0)
}

interface Field {
  readonly dir: string
  readonly tokens: Tokens
  readonly upstreamPort: number
  readonly load: Child
  readonly starts: number
  readonly seconds: number
  readonly pause: number
}

async function measure(profile: string, field: Field): Promise<Row> {
  const { dir, tokens, upstreamPort, load, starts, seconds, pause } = field
  const own = gateway({ name: 'gateway', root: ROOT, program: COMPILED })
  const start = (number: number) => {
    const setup: ContenderSetup = {
      dir: join(dir, `${profile}-${number}`),
      upstreamPort,
      tokens,
      gatewayEnv: { GATEWAY_PROFILE: profile },
      cpus: undefined,
    }
    mkdirSync(setup.dir)
    return own.start(setup)
  }
  const readyMs: number[] = []
  for (let number = 1; number < starts; number++) {
    const [ms, running] = await timed(() => start(number))
    readyMs.push(ms)
    await running.end()
  }
  const [ms, running] = await timed(() => start(0))
  const [pid] = running.pids
  await sleep(SETTLE_MS)
  const idleBytes = residentBytesOf(pid)
  const request = {
    method: 'GET',
    path: '/api/balance',
    body: '',
    tokensFile: tokens.files.RS256,
    tokens: CONNECTIONS,
    order: 'own',
    responseBytes: RESPONSE_BYTES,
  } as const
  const { cpu, responses } = await carryOut(load, {
    ports: running.ports,
    request,
    connections: CONNECTIONS,
    idleConnections: 0,
    warmUpMs: WARM_UP_MS,
    measureMs: seconds * 1000,
    perSecond: undefined,
    pids: familyOf(pid),
  })
  const bytes = residentBytesOf(pid)
  await sleep(pause * 1000)
  const loaded = { bytes, laterBytes: residentBytesOf(pid), cpuUs: (cpu.userUs + cpu.systemUs) / responses }
  await running.end()
  return { name: profile, readyMs: [...readyMs, ms], idleBytes, loaded }
}

async function bare(starts: number): Promise<Row> {
  const readyMs: number[] = []
  for (let number = 0; ; number++) {
    const [ms, child] = await timed(async () => {
      const started = startChild({ command: [process.execPath, '--eval', BARE], cpus: undefined })
      await portOf(started)
      return started
    })
    readyMs.push(ms)
    if (number === starts - 1) await sleep(SETTLE_MS)
    const idleBytes = residentBytesOf(child.pid)
    await child.end()
    if (number === starts - 1) return { name: 'a bare Node with a socket', readyMs, idleBytes }
  }
}

async function timed<T>(act: () => Promise<T>): Promise<[number, T]> {
  const fromMs = performance.now()
  const result = await act()
  return [performance.now() - fromMs, result]
}

function table(rows: readonly Row[], seconds: number, pause: number): string {
  const lines = rows.map(({ name, readyMs, idleBytes, loaded }) => {
    const { median, min, max } = spreadOf(readyMs)
    const ready = `${median.toFixed(0)} (${min.toFixed(0)}–${max.toFixed(0)}) ms`
    const after = loaded && [
      megabytes(loaded.bytes),
      megabytes(loaded.laterBytes),
      `${loaded.cpuUs.toFixed(1)} µs`,
    ]
    return [name, ready, megabytes(idleBytes), ...(after ?? ['', '', ''])]
  })
  const head = [
    '',
    `ready, median of ${rows[0]?.readyMs.length}`,
    'resident, idle',
    `after ${CONNECTIONS} connections for ${seconds} s`,
    `${pause} s later`,
    'CPU per request',
  ]
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function megabytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(0)} MiB`
}
