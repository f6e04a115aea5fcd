import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { LogLine } from '../testing/running-process.ts'
import { createIssuer } from '../testing/test-issuer.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'

const WARM_UP = 1500
const COUNTED = 1000
/** Enough for several collections of the young space. */
const MANY = 6000
const AT_ONCE = 32

/**
 * What one authenticated, limited, audited request may cost, counted and not timed, so that the result is the same on
 * any machine. Each budget is somewhat above the count when it was set: it finds a change that doubles a cost, not one
 * of a few bytes.
 */
const BUDGET = {
  /** Writes to the kernel when nothing else is going on: to the upstream, to the client, two audit records. */
  writes: 4.1,
  /** Writes with 32 requests at once: audit records that come in one turn of the event loop share a write. */
  writesUnderLoad: 2.5,
  /** Bytes allocated on the JavaScript heap. */
  allocatedBytes: 28_000,
  /** The part of these bytes that stays until a full collection. */
  leftBehindBytes: 600,
}

const BODY = JSON.stringify({ balance: '1000.00', currency: 'EUR', asOf: '2026-01-01T00:00:00Z' })
const ANSWER = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`

/** An upstream that costs as little as it can, and the keys of its issuer. */
async function startBareUpstream() {
  const issuer = await createIssuer()
  const jwks = JSON.stringify(issuer.jwks)
  const keys = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${jwks.length}\r\n\r\n${jwks}`
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (chunk) => socket.write(chunk.includes('jwks.json') ? keys : ANSWER))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { issuer, server, url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

/** Sends requests one after the other on one connection. Each response must come in one piece. */
async function ask(socket: Socket, request: string, times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    socket.write(request, 'latin1')
    const [piece] = (await once(socket, 'data')) as [Buffer]
    const text = piece.toString('latin1')
    assert.ok(text.startsWith('HTTP/1.1 200 ') && text.endsWith(BODY), `in one piece, but came: ${text}`)
  }
}

/** Sends one request on each connection at once, and the next when all have a response. */
async function askAll(sockets: readonly Socket[], request: string, rounds: number): Promise<void> {
  for (let i = 0; i < rounds; i++) await Promise.all(sockets.map((socket) => ask(socket, request, 1)))
}

const noKernelAccounts = existsSync('/proc/self/io')
  ? false
  : 'needs /proc, which tells what a process has written'

describe('the budget of a request', { skip: noKernelAccounts }, () => {
  let upstream: Awaited<ReturnType<typeof startBareUpstream>>
  let gateway: TestGateway
  let socket: Socket
  const crowd: Socket[] = []
  let request: string

  before(async () => {
    upstream = await startBareUpstream()
    const probe = new URL('heap-probe.ts', import.meta.url).href
    gateway = await startGateway({
      config: { routes: [{ path: '/api/balance', auth: ['bearer'], scopes: ['accounts:read'] }] },
      limits: [{ path: '/api/balance', limit: 1000000, window: '1m', purpose: 'Counting.' }],
      env: {
        GATEWAY_UPSTREAM: upstream.url,
        NODE_OPTIONS: `--import ${probe}`,
      },
    })
    const token = await upstream.issuer.token()
    request =
      'GET /api/balance HTTP/1.1\r\nHost: localhost\r\nUser-Agent: budget\r\nAccept: */*\r\n' +
      `Authorization: Bearer ${token}\r\n\r\n`
    socket = connect({ port: gateway.port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    await ask(socket, request, WARM_UP)
  })
  after(async () => {
    socket?.destroy()
    for (const one of crowd) one.destroy()
    await gateway?.end()
    upstream.server.close()
  })

  it('is four writes at most when it comes alone: to the upstream, to the client, and one for each audit record', async () => {
    const before = writesOf(gateway)
    await ask(socket, request, COUNTED)
    const writes = (writesOf(gateway) - before) / COUNTED
    assert.ok(writes <= BUDGET.writes, `${writes} writes for a request, of at most ${BUDGET.writes}`)
    // A lone request shares no write, so fewer writes would mean that the count is wrong.
    assert.ok(writes >= 3.9, `${writes} writes for a request`)
  })

  it('is half a write to the audit trail at most, for both its records, when 32 come at once', async () => {
    for (let i = 0; i < AT_ONCE; i++)
      crowd.push(connect({ port: gateway.port, host: '127.0.0.1', noDelay: true }))
    await Promise.all(crowd.map((one) => once(one, 'connect')))
    const rounds = Math.ceil(COUNTED / AT_ONCE)
    await askAll(crowd, request, rounds)
    const before = { writes: writesOf(gateway), lines: linesIn(gateway.auditFile) }
    await askAll(crowd, request, rounds)
    const requests = rounds * AT_ONCE
    const writes = (writesOf(gateway) - before.writes) / requests
    assert.ok(
      writes <= BUDGET.writesUnderLoad,
      `${writes} writes for a request, of at most ${BUDGET.writesUnderLoad}`,
    )
    // Each request to the upstream and each response is a write, and the trail is written too.
    assert.ok(writes > 2, `${writes} writes for a request`)
    assert.equal(linesIn(gateway.auditFile) - before.lines, 2 * requests)
  })

  it('is a bounded number of bytes on the heap', async () => {
    let bytes = await allocatedBy(crowd)
    // On a busy machine V8 optimizes late, and optimized code allocates less: then count again.
    for (let tries = 1; tries < 5 && bytes > BUDGET.allocatedBytes; tries++) bytes = await allocatedBy(crowd)

    assert.ok(bytes <= BUDGET.allocatedBytes, `${bytes} bytes, of at most ${BUDGET.allocatedBytes}`)
    assert.ok(bytes > 500, `${bytes} bytes for a request`)
  })

  it('leaves almost no bytes that a collection of the young space does not free', async () => {
    const bytes = await leftBehind(() => ask(socket, request, MANY))

    assert.ok(bytes <= BUDGET.leftBehindBytes, `${bytes} bytes, of at most ${BUDGET.leftBehindBytes}`)
  })

  /** Bytes that a request allocates. */
  async function allocatedBy(sockets: readonly Socket[]): Promise<number> {
    const rounds = Math.ceil(COUNTED / sockets.length)
    const before = await heapOf(gateway)
    await askAll(sockets, request, rounds)
    const allocated = (await heapOf(gateway)).allocatedBytes - before.allocatedBytes
    return allocated / (rounds * sockets.length)
  }

  /** Bytes of a request in the old space afterwards. Counts again if a full collection happened meanwhile. */
  async function leftBehind(work: () => Promise<void>): Promise<number> {
    for (let tries = 0; tries < 5; tries++) {
      const before = await heapOf(gateway)
      await work()
      const after = await heapOf(gateway)
      if (after.fullCollections === before.fullCollections) return (after.oldBytes - before.oldBytes) / MANY
    }
    throw new Error('one full collection after the other')
  }
})

/** Writes to files and sockets, as the kernel counts them for the process. */
function writesOf(gateway: TestGateway): number {
  return Number(/^syscw: (\d+)$/m.exec(readFileSync(`/proc/${gateway.process.child.pid}/io`, 'utf8'))?.[1])
}

function linesIn(file: string): number {
  return readFileSync(file, 'latin1').split('\n').length - 1
}

interface Heap {
  readonly allocatedBytes: number
  readonly oldBytes: number
  readonly fullCollections: number
}

async function heapOf(gateway: TestGateway): Promise<Heap> {
  const isResponse = (line: LogLine) => line.msg === 'heap'
  const told = gateway.process.lines.filter(isResponse).length
  gateway.process.child.kill('SIGUSR2')
  const line = await until(() => gateway.process.lines.filter(isResponse)[told])
  return {
    allocatedBytes: Number(line.allocatedBytes),
    oldBytes: Number(line.oldBytes),
    fullCollections: Number(line.fullCollections),
  }
}
