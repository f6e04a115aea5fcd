import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { after, describe, it } from 'node:test'
import type { LoadJob } from './load-job.ts'
import { LoadRun } from './load-run.ts'

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const servers: Server[] = []

async function serve(response: (socket: Socket, request: string) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => response(socket, bytes.toString()))
  }).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

function jobOf(port: number, more: Partial<LoadJob> = {}): LoadJob {
  return {
    ports: [port],
    request: {
      method: 'GET',
      path: '/',
      body: '',
      tokensFile: '',
      tokens: 3,
      order: 'own',
      responseBytes: 2,
    },
    connections: 3,
    idleConnections: 0,
    warmUpMs: 10,
    measureMs: 100,
    perSecond: undefined,
    pids: [process.pid],
    ...more,
  }
}

const NUMBERED = ['a', 'b', 'c'].map((name) =>
  Buffer.from(`GET /${name} HTTP/1.1\r\nIdempotency-Key: REQUEST-NUMBER--\r\n\r\n`),
)
const REQUESTS = ['a', 'b', 'c'].map((name) => Buffer.from(`GET /${name} HTTP/1.1\r\n\r\n`))

describe('a run of the load generator', { skip: process.platform !== 'linux' && 'needs Linux' }, () => {
  after(() => {
    for (const server of servers) server.close()
  })

  it('gives each request its own number if the job says so', async () => {
    const seen: string[] = []
    const port = await serve((socket, request) => {
      seen.push(/^Idempotency-Key: (\d{16})\r$/m.exec(request)?.[1] ?? request)
      socket.write(ANSWER)
    })
    await new LoadRun(jobOf(port), NUMBERED).closedLoop()
    await new LoadRun(jobOf(port), NUMBERED).closedLoop()
    assert.ok(seen.length > 3)
    assert.equal(new Set(seen).size, seen.length)
    assert.ok(seen.every((one) => /^\d+$/.test(one)))
  })

  it('counts responses of a closed loop, one request under way on each connection', async () => {
    const open = new Set<Socket>()
    let most = 0
    const port = await serve((socket, request) => {
      assert.equal(request.split('GET').length, 2)
      open.add(socket)
      most = Math.max(most, open.size)
      socket.write(ANSWER)
    })
    const result = await new LoadRun(
      jobOf(port, { idleConnections: 2, measureMs: 500 }),
      REQUESTS,
    ).closedLoop()
    assert.ok(result.responses > 3)
    assert.equal(most, 3)
    assert.ok(result.seconds > 0.09 && result.cpu.userUs + result.cpu.systemUs >= 0)
  })

  it('reads the CPU of a store apart', async () => {
    const port = await serve((socket) => socket.write(ANSWER))
    const job = jobOf(port, { storePids: [process.pid] })
    const { storeUs, cpu } = await new LoadRun(job, REQUESTS).closedLoop()
    // Both times are of this process, read one after the other. The kernel counts in steps of 10 ms.
    const differenceUs = Math.abs((storeUs ?? Number.NaN) - cpu.userUs - cpu.systemUs)
    assert.ok(differenceUs <= 20_000, `${differenceUs} µs`)
    assert.equal((await new LoadRun(jobOf(port), REQUESTS).closedLoop()).storeUs, undefined)
  })

  it('sends each request on a new connection if the job says so', async () => {
    const requests = new Map<Socket, number>()
    const port = await serve((socket) => {
      requests.set(socket, (requests.get(socket) ?? 0) + 1)
      socket.write(ANSWER)
    })
    const { responses } = await new LoadRun(
      jobOf(port, { renewal: 'new', measureMs: 500 }),
      REQUESTS,
    ).closedLoop()
    assert.ok(responses > 0 && requests.size >= responses)
    assert.equal(Math.max(...requests.values()), 1)
  })

  it('divides its connections evenly among the ports', async () => {
    const open = [new Set<Socket>(), new Set<Socket>()]
    const ports = await Promise.all(
      open.map((sockets) =>
        serve((socket) => {
          sockets.add(socket)
          socket.write(ANSWER)
        }),
      ),
    )
    await new LoadRun({ ...jobOf(0, { connections: 4, measureMs: 500 }), ports }, REQUESTS).closedLoop()
    assert.deepEqual(
      open.map(({ size }) => size),
      [2, 2],
    )
  })

  it('fails for a wrong response and for a connection that is closed', async () => {
    const wrong = await serve((socket) => socket.write(ANSWER.replace('200', '503')))
    await assert.rejects(new LoadRun(jobOf(wrong), REQUESTS).closedLoop(), /not 200: HTTP\/1\.1 503/)
    const closing = await serve((socket) => socket.end())
    await assert.rejects(new LoadRun(jobOf(closing), REQUESTS).closedLoop(), /closed|ECONNRESET/)
  })

  it('sends each token in turn when asked to', { timeout: 60_000 }, async () => {
    const seen: string[] = []
    const port = await serve((socket, request) => {
      seen.push(request.charAt(5))
      socket.write(ANSWER)
    })
    const job = jobOf(port, { connections: 1 })
    const cyclic: LoadJob = { ...job, request: { ...job.request, order: 'cyclic' } }
    const cycle = { turn: 0 }
    // On a busy machine one run may send a single request.
    while (seen.length < 6) await new LoadRun(cyclic, REQUESTS, cycle).closedLoop()
    assert.equal(seen.slice(0, 6).join(''), 'bcabca')
  })

  it('keeps to the rate of an open loop and counts waiting from the intended start', async () => {
    // One connection, and a server that holds the first response back until a second request could have been sent.
    let asked = 0
    const port = await serve((socket) => {
      asked += 1
      if (asked === 1) setTimeout(() => socket.write(ANSWER), 150)
      else socket.write(ANSWER)
    })
    const run = new LoadRun(jobOf(port, { connections: 1, warmUpMs: 0, measureMs: 200 }), REQUESTS)
    const ticker = setInterval(() => run.tick(), 1)
    const result = await run.openLoop(100)
    clearInterval(ticker)
    assert.equal(asked, 20)
    const { count, p50 } = result.latencyUs!
    assert.equal(count, 20)
    // While the first response was held, a request was due every 10 ms. These waited 140 ms, 130 ms, and so on.
    assert.ok(p50 > 20_000, `${p50}`)
  })
})
