import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { makeTokens, type Tokens } from './bench-tokens.ts'
import { firstMessage, startChild } from './child.ts'
import { gateway } from './contenders/countersign.ts'
import { type DrainCounts, DrainLoad } from './drain-load.ts'
import { machineFacts } from './facts.ts'
import { spreadOf } from './statistics.ts'
import { freePort } from './unused-port.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const UPSTREAM = new URL('./bench-upstream.ts', import.meta.url)
const CLIENTS = { keeping: 24, opening: 12 }
/** The least time before SIGTERM. A random time from 0 to LOAD_MS is added. */
const LOAD_MS = 300
const USAGE = `npm run bench:drain -- [options]
  --stops n      how often each gateway is stopped; default 50
  --root DIR     stops the gateway of that tree instead of this one's
  --against DIR  also stops the gateway of that tree, in turns; may be given several times`

interface Stopped extends DrainCounts {
  readonly endedAfterMs: number
}

interface Field {
  readonly dir: string
  readonly upstreamPort: number
  readonly tokens: Tokens
}

await main()

/** `npm run bench:drain`: how many requests fail when SIGTERM stops a gateway under load. */
async function main(): Promise<void> {
  const { stops, roots } = optionsOrExit()
  const facts = machineFacts().map((fact) => fact.join(': '))
  const dir = mkdtempSync(join(tmpdir(), 'countersign-drain-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  const tokens = makeTokens(dir, { RS256: 1, ES256: 1 })
  const upstream = startChild({
    command: [process.execPath, fileURLToPath(UPSTREAM), tokens.jwksFile],
    cpus: undefined,
    ipc: true,
  })
  const { port: upstreamPort } = await firstMessage<{ port: number }>(upstream)
  const field = { dir, upstreamPort, tokens }
  const stopped = new Map<string, Stopped[]>(roots.map((root) => [root, []]))
  for (let i = 0; i < stops; i++) {
    for (const [root, all] of stopped) all.push(await stopOnce(root, field))
  }
  say(facts.join(' · '))
  const { keeping, opening } = CLIENTS
  say(`load: ${keeping} clients keep their connections, ${opening} open one for each request\n`)
  say('| gateway of | stops | with a failure | requests | cannot connect | broken | not 200 | ends after |')
  say('| --- | --- | --- | --- | --- | --- | --- | --- |')
  for (const [root, all] of stopped) say(lineOf(root, all))
  process.exit(0)
}

function optionsOrExit() {
  try {
    const { values } = parseArgs({
      options: {
        stops: { type: 'string', default: '50' },
        root: { type: 'string', default: ROOT },
        against: { type: 'string', multiple: true, default: [] },
      },
    })
    const stops = Number(values.stops)
    if (!(Number.isInteger(stops) && stops > 0)) throw new Error('--stops must be a whole number above 0')
    return {
      stops,
      roots: [values.root, ...values.against].map((dir) => resolve(dir)),
    }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}\n`)
    process.exit(1)
  }
}

async function stopOnce(root: string, { dir, upstreamPort, tokens }: Field): Promise<Stopped> {
  const own = mkdtempSync(join(dir, 'gateway-'))
  const adminPort = await freePort()
  const gatewayEnv = { GATEWAY_ADMIN_PORT: String(adminPort) }
  const running = await gateway({ name: root, root }).start({
    dir: own,
    upstreamPort,
    tokens,
    gatewayEnv,
    cpus: undefined,
  })
  const token = readFileSync(tokens.files.ES256, 'latin1').split('\n')[0]
  const request = `GET /api/balance HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\n`
  const load = new DrainLoad({ port: running.ports[0], adminPort, request })
  const loaded = load.run(CLIENTS)
  await sleep(LOAD_MS * (1 + Math.random()))
  const [pid] = running.pids
  const fromMs = performance.now()
  process.kill(pid, 'SIGTERM')
  await gone(pid)
  const endedAfterMs = performance.now() - fromMs
  await loaded
  await running.end()
  rmSync(own, { recursive: true, force: true })
  return { ...load.counts, endedAfterMs }
}

async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await sleep(5)
  }
}

function lineOf(root: string, all: readonly Stopped[]): string {
  const sum = (count: (one: Stopped) => number) => all.reduce((total, one) => total + count(one), 0)
  const failures = ({ unconnected, broken, refused }: Stopped) => unconnected + broken + refused
  const cells = [
    root === resolve(ROOT) ? 'this tree' : root,
    all.length,
    all.filter((one) => failures(one) > 0).length,
    sum((one) => one.good + failures(one)),
    sum(({ unconnected }) => unconnected),
    sum(({ broken }) => broken),
    sum(({ refused }) => refused),
    `${Math.round(spreadOf(all.map(({ endedAfterMs }) => endedAfterMs)).median)} ms`,
  ]
  return `| ${cells.join(' | ')} |`
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
