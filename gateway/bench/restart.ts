import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { unpaired } from '../e2e/audit-pairs.ts'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { readAudit } from '../testing/audit-file.ts'
import { type Authority, makeAuthority, makeCertificate, SERVER_AUTH } from '../tls/demo/throw-away-ca.ts'
import { makeTokens, type Tokens } from './bench-tokens.ts'
import { firstMessage, startChild } from './child.ts'
import { gateway } from './contenders/countersign.ts'
import { type DrainCounts, DrainLoad } from './drain-load.ts'
import { machineFacts } from './facts.ts'
import { freePort } from './unused-port.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const UPSTREAM = new URL('./bench-upstream.ts', import.meta.url)
const CLIENTS = { keeping: 24, opening: 12 }
/** The least time between restarts. A random time from 0 to LOAD_MS is added. */
const LOAD_MS = 300
const USAGE = `npm run bench:restart -- [options]
  --restarts n    how often the gateway is restarted without TLS, and again with TLS; default 20
  --tls no|yes    only without TLS (no) or only with TLS (yes); default: no,yes`

interface Restarted extends DrainCounts {
  readonly heldMs: readonly number[]
  readonly pauseMs: number
  readonly unmatched: number
}

interface Field {
  readonly dir: string
  readonly upstreamPort: number
  readonly tokens: Tokens
  readonly restarts: number
}

await main()

/** `npm run bench:restart`: how many requests fail, and how long clients wait, when a gateway restarts under load. */
async function main(): Promise<void> {
  const { restarts, kinds } = optionsOrExit()
  const dir = mkdtempSync(join(tmpdir(), 'countersign-restart-'))
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  const tokens = makeTokens(dir, { RS256: 1, ES256: 1 })
  const upstream = startChild({
    command: [process.execPath, fileURLToPath(UPSTREAM), tokens.jwksFile],
    cpus: undefined,
    ipc: true,
  })
  const { port: upstreamPort } = await firstMessage<{ port: number }>(upstream)
  const facts = machineFacts().map((fact) => fact.join(': '))
  const { keeping, opening } = CLIENTS
  say(facts.join(' · '))
  say(`load: ${keeping} clients keep their connections, ${opening} open one for each request\n`)
  say(
    '| TLS | restarts | requests | cannot connect | broken | not 200 | unmatched pairs | neither process serves, median (longest) | longest time without a response |',
  )
  say('| --- | --- | --- | --- | --- | --- | --- | --- | --- |')
  for (const tls of kinds) {
    say(lineOf(tls, await restartOften(tls, { dir, upstreamPort, tokens, restarts })))
  }
  process.exit(0)
}

function optionsOrExit() {
  try {
    const { values } = parseArgs({
      options: {
        restarts: { type: 'string', default: '20' },
        tls: { type: 'string', default: 'no,yes' },
      },
    })
    const restarts = Number(values.restarts)
    if (!(Number.isInteger(restarts) && restarts > 0))
      throw new Error('--restarts must be a whole number above 0')
    return { restarts, kinds: values.tls.split(',') }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}\n`)
    process.exit(1)
  }
}

async function restartOften(tls: string, field: Field): Promise<Restarted> {
  const { tokens, upstreamPort, restarts } = field
  const own = mkdtempSync(join(field.dir, 'gateway-'))
  const adminPort = await freePort()
  const secure = tls === 'yes' ? await makeSecure(own) : undefined
  const gatewayEnv = { GATEWAY_ADMIN_PORT: String(adminPort), ...secure?.env }
  const target = gateway({ name: 'this tree', root: resolve(ROOT) })
  const running = await target.start({ dir: own, upstreamPort, tokens, gatewayEnv, cpus: undefined })
  let [pid] = running.pids
  process.once('exit', () => kill(pid))
  const token = readFileSync(tokens.files.ES256, 'latin1').split('\n')[0]
  const request = `GET /api/balance HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n`
  const port = secure?.port ?? running.ports[0]
  const load = new DrainLoad({ port, adminPort, request, ca: secure?.authority.certPem })
  const heldMs: number[] = []
  const restartAll = async () => {
    for (let i = 0; i < restarts; i++) {
      await sleep(LOAD_MS * (1 + Math.random()))
      const done = await restart(join(own, 'data'))
      pid = done.pid
      heldMs.push(done.heldMs)
    }
    await sleep(LOAD_MS)
  }
  await load.run(CLIENTS, restartAll())
  process.kill(pid, 'SIGINT')
  await gone(pid)
  const unmatched = unpaired(readAudit(join(own, 'audit.ndjson'))).length
  rmSync(own, { recursive: true, force: true })
  return { ...load.counts, heldMs, pauseMs: load.longestPauseMs, unmatched }
}

/** @throws Error when the restart is refused for good */
async function restart(dataDir: string): Promise<{ readonly pid: number; readonly heldMs: number }> {
  for (;;) {
    const { restarted, text } = await askRestart(dataDir)
    const [, pid, heldMs] = /^process (\d+) .*?(\d+) ms/.exec(text) ?? []
    if (restarted) return { pid: Number(pid), heldMs: Number(heldMs) }
    if (!/try again later/.test(text)) throw new Error(text)
    await sleep(50)
  }
}

async function makeSecure(dir: string) {
  const authority: Authority = await makeAuthority({ subject: 'CN=Bench' })
  const { certPem, keyPem } = await makeCertificate({
    subject: 'CN=localhost',
    issuer: authority,
    san: [{ type: 'dns', value: 'localhost' }],
    extendedKeyUsages: [SERVER_AUTH],
  })
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')]
  writeFileSync(cert, certPem)
  writeFileSync(key, keyPem)
  const port = await freePort()
  const env = { GATEWAY_TLS_PORT: String(port), GATEWAY_TLS_CERT: cert, GATEWAY_TLS_KEY: key }
  return { port, authority, env }
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

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function lineOf(tls: string, one: Restarted): string {
  const held = [...one.heldMs].sort((a, b) => a - b)
  const median = held[Math.floor(held.length / 2)]
  const cells = [
    tls,
    held.length,
    one.good + one.unconnected + one.broken + one.refused,
    one.unconnected,
    one.broken,
    one.refused,
    one.unmatched,
    `${median} (${held.at(-1)}) ms`,
    `${Math.round(one.pauseMs)} ms`,
  ]
  return `| ${cells.join(' | ')} |`
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
