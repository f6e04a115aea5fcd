import { createHmac, generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { makeAuthority } from '../tls/demo/throw-away-ca.ts'
import { ALL_ATTACKS } from './all-attacks.ts'
import { AUDIENCE, ISSUER, tokenOf } from './bench-tokens.ts'
import { type BystanderRequest, Bystanders, type Outcomes } from './bystanders.ts'
import { type Child, firstMessage, startChild } from './child.ts'
import type { Attack, Ports } from './client-attacks.ts'
import { YOUNG_OBJECTS } from './contender.ts'
import { machineFacts } from './facts.ts'
import { cpuTimeOf, residentBytesOf } from './kernel.ts'
import { PIECES, PIECES_PATH } from './piece-attacks.ts'
import { hasHaproxy, startPlainHaproxy } from './plain-haproxy.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ATTACKER = fileURLToPath(new URL('./client-attacker.ts', import.meta.url))
const USAGE = `npm run bench:clients -- [--gateway DIR] [--only ${Object.keys(ALL_ATTACKS).join(',')}]`
const BEFORE_MS = 500
const LONG_MS = 6_000
const LOOK_MS = 50
const SETTLED_MS = 1_000
const MOST_LOOKS = 12
const SECRET = randomBytes(32)
const KEYS = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const JWKS = {
  keys: [{ ...KEYS.publicKey.export({ format: 'jwk' }), kid: 'ES256', alg: 'ES256', use: 'sig' }],
}
const JWKS_PATH = '/jwks.json'
const LARGE_PATH = '/open/large'
const LARGE = Buffer.alloc(1024 * 1024)

interface Outcome extends Outcomes {
  readonly residentBytes: number
  /** `residentBytes`, less what was resident before the attack. */
  readonly grownBytes: number
  /** The gateway's CPU time, also for bystanders. */
  readonly cpuMs: number
  readonly trailBytes: number
  /** Log lines that call an untouched file unreadable. */
  readonly unreadFiles: number
}

await main()

/** `npm run bench:clients`: how well-behaved clients fare while one client attacks. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { gateway: { type: 'string' }, only: { type: 'string' } } })
  const names = values.only?.split(',') ?? Object.keys(ALL_ATTACKS)
  const unknown = names.find((name) => ALL_ATTACKS[name] === undefined)
  if (unknown !== undefined) throw new Error(`no attack is called ${unknown}: ${USAGE}`)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  const facts = machineFacts().map((fact) => fact.join(': '))
  process.stdout.write(`${facts.join(' · ')}\n\n`)
  process.stdout.write(
    '| attack | bystanders failed | longest wait | p99 | CPU | resident | per connection | trail | files unread |\n',
  )
  process.stdout.write(`|${' --- |'.repeat(9)}\n`)
  for (const name of names) {
    const attack = ALL_ATTACKS[name] as Attack
    const root = values.gateway ?? ROOT
    const outcome = await measure(name, (parts) => startGateway({ root, ...parts }))
    process.stdout.write(`${lineOf(attack, outcome)}\n`)
    if (attack.haproxy !== true || !hasHaproxy()) continue
    const beside = await measure(name, startHaproxy)
    process.stdout.write(`${lineOf({ ...attack, what: `HAProxy: ${attack.what}` }, beside)}\n`)
  }
  process.exit(0)
}

function lineOf({ what, connections }: Attack, outcome: Outcome): string {
  const { sent, failed, longestMs, waitsMs, residentBytes, grownBytes, cpuMs, trailBytes, unreadFiles } =
    outcome
  const mib = (bytes: number) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`
  const wait = `${(longestMs / 1000).toFixed(2)} s`
  const cpu = `${(cpuMs / 1000).toFixed(2)} s`
  const each =
    connections === undefined
      ? '–'
      : `${(cpuMs / connections).toFixed(1)} ms, ${(grownBytes / 1024 / connections).toFixed(0)} KiB`
  const columns = [
    what,
    `${failed} of ${sent}`,
    wait,
    `${Math.round(percentile99(waitsMs))} ms`,
    cpu,
    mib(residentBytes),
    each,
    mib(trailBytes),
    unreadFiles,
  ]
  return `| ${columns.join(' | ')} |`
}

function percentile99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.ceil(0.99 * sorted.length) - 1] ?? 0
}

async function measure(name: string, start: (parts: Parts) => Promise<Started>): Promise<Outcome> {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-clients-'))
  const upstream = createServer((req, res) => {
    req.resume().on('end', () => {
      if (req.url === PIECES_PATH && req.method === 'GET') sendPieces(res)
      else if (req.url === LARGE_PATH) res.end(LARGE)
      else res.end(req.url === JWKS_PATH ? JSON.stringify(JWKS) : 'ok')
    })
  })
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const attack = ALL_ATTACKS[name] as Attack
  const upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
  const { child, ports, unreadFiles } = await start({ dir, upstreamUrl, attack })
  try {
    return {
      ...(await watch(name, { child, ports, dir })),
      unreadFiles: unreadFiles(),
    }
  } finally {
    child.process.kill('SIGKILL')
    upstream.close()
    upstream.closeAllConnections()
    rmSync(dir, { recursive: true, force: true })
  }
}

/** Responds with chunks of one byte, all in one write. */
function sendPieces({ socket }: ServerResponse): void {
  socket?.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n')
  socket?.end(`${'1\r\nx\r\n'.repeat(PIECES)}0\r\n\r\n`)
}

interface Watched {
  readonly child: Child
  readonly ports: Ports
  readonly dir: string
}

async function watch(name: string, { child, ports, dir }: Watched): Promise<Omit<Outcome, 'unreadFiles'>> {
  const trail = join(dir, 'audit.ndjson')
  const keyFile = join(dir, 'issuer.pem')
  writeFileSync(keyFile, KEYS.privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const bystanders = new Bystanders(bystanderRequestOf(ALL_ATTACKS[name] as Attack, ports))
  await sleep(BEFORE_MS)
  const trailBefore = statSync(trail).size
  const residentBefore = residentBytesOf(child.pid)
  const cpuBefore = cpuMsOf(child.pid)
  let residentBytes = 0
  const look = setInterval(() => {
    residentBytes = Math.max(residentBytes, residentBytesOf(child.pid))
  }, LOOK_MS)
  const attacker = startChild({
    command: [
      process.execPath,
      ATTACKER,
      name,
      ...[ports.port, ports.tlsPort, ports.adminPort].map(String),
      keyFile,
    ],
    cpus: undefined,
    ipc: true,
  })
  try {
    await firstMessage(attacker)
    await sleep(LONG_MS)
    const outcomes = await bystanders.end()
    const cpuMs = cpuMsOf(child.pid) - cpuBefore
    const trailBytes = (await settledSize(trail)) - trailBefore
    return { ...outcomes, trailBytes, cpuMs, residentBytes, grownBytes: residentBytes - residentBefore }
  } finally {
    clearInterval(look)
    attacker.process.kill('SIGKILL')
  }
}

function cpuMsOf(pid: number): number {
  const { userUs, systemUs } = cpuTimeOf([pid])
  return (userUs + systemUs) / 1000
}

/** The size of a file once it grows no more, or after 12 s. */
async function settledSize(file: string): Promise<number> {
  let size = -1
  for (let looks = 0; looks < MOST_LOOKS && size !== statSync(file).size; looks++) {
    size = statSync(file).size
    await sleep(SETTLED_MS)
  }
  return size
}

function bystanderRequestOf({ bystanders }: Attack, { port, tlsPort, adminPort }: Ports): BystanderRequest {
  const secure = bystanders === 'tls'
  const plain = { method: 'GET', path: '/open/beside', headers: {}, body: '' }
  if (bystanders === 'probe') return { port: adminPort, secure, make: () => ({ ...plain, path: '/healthz' }) }
  const known = {
    ...plain,
    path: '/known',
    headers: { Authorization: `Bearer ${tokenOf('ES256', KEYS.privateKey, 0)}` },
  }
  const make = bystanders === 'webhooks' ? signedWebhook : () => (bystanders === 'token' ? known : plain)
  return { port: secure ? tlsPort : port, secure, make }
}

/** Standard Webhooks 1.0. */
function signedWebhook() {
  const id = `msg_${randomUUID()}`
  const seconds = String(Math.floor(Date.now() / 1000))
  const body = '{"type":"beside"}'
  const signature = createHmac('sha256', SECRET).update(`${id}.${seconds}.${body}`).digest('base64')
  const headers = {
    'x-api-key': 'key_acme',
    'webhook-id': id,
    'webhook-timestamp': seconds,
    'webhook-signature': `v1,${signature}`,
  }
  return { method: 'POST', path: '/hooks', headers, body }
}

interface Parts {
  readonly dir: string
  readonly upstreamUrl: string
  readonly attack: Attack
}

interface Started {
  readonly child: Child
  readonly ports: Ports
  readonly unreadFiles: () => number
}

async function startHaproxy({ dir, upstreamUrl }: Parts): Promise<Started> {
  const { child, port } = await startPlainHaproxy(dir, upstreamUrl)
  // HAProxy has no trail.
  writeFileSync(join(dir, 'audit.ndjson'), '')
  return { child, ports: { port, tlsPort: 0, adminPort: 0 }, unreadFiles: () => 0 }
}

async function startGateway({
  root,
  dir,
  upstreamUrl,
  attack: { files, http2 },
}: Parts & { readonly root: string }): Promise<Started> {
  const child = startChild({
    command: [
      'sh',
      '-c',
      `${files === undefined ? '' : `ulimit -n ${files}; `}exec "$@"`,
      'sh',
      process.execPath,
      ...YOUNG_OBJECTS,
      join(root, 'gateway/main.ts'),
    ],
    cpus: undefined,
    env: await environmentOf(dir, upstreamUrl, http2 && { http2 }),
  })
  let text = ''
  child.process.stderr?.on('data', (piece: string) => {
    text += piece
  })
  const unreadFiles = () => text.split('stay in force').length - 1
  for (let waited = 0; waited < 200; waited++) {
    const line = text.split('\n').find((one) => one.includes('"msg":"listening"'))
    if (line !== undefined) return { child, ports: JSON.parse(line) as Ports, unreadFiles }
    await sleep(LOOK_MS)
  }
  throw new Error(`the gateway did not begin: ${child.said().slice(0, 500)}`)
}

async function environmentOf(
  dir: string,
  upstream: string,
  more: object = {},
): Promise<Record<string, string>> {
  const write = (name: string, content: string | object) => {
    const file = join(dir, name)
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
    return file
  }
  const routes = [
    { path: '/hooks', auth: ['hmac'] },
    { path: '/known', auth: ['bearer'] },
    { path: '/*', auth: ['none'] },
  ]
  const hmac = { keyId: 'key_acme', secrets: [{ env: 'ACME_SECRET' }] }
  const { certPem, keyPem } = await makeAuthority({ subject: 'CN=localhost' })
  mkdirSync(join(dir, 'data'))
  return {
    GATEWAY_CONFIG: write('gateway.json', {
      upstream,
      issuer: ISSUER,
      audience: AUDIENCE,
      jwksUri: upstream + JWKS_PATH,
      routes,
      ...more,
    }),
    GATEWAY_LIMITS: write('limits.json', {
      limits: [{ path: '/', limit: 5, window: '1m', purpose: 'Attacks' }],
    }),
    GATEWAY_CLIENTS: write('clients.json', { clients: [{ id: 'acme', hmac }] }),
    GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
    GATEWAY_DATA_DIR: join(dir, 'data'),
    GATEWAY_PORT: '0',
    GATEWAY_ADMIN_PORT: '0',
    GATEWAY_TLS_PORT: '0',
    GATEWAY_TLS_CERT: write('cert.pem', certPem),
    GATEWAY_TLS_KEY: write('key.pem', keyPem),
    ACME_SECRET: `whsec_${SECRET.toString('base64')}`,
  }
}
