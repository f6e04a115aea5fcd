import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { it } from 'node:test'
import { metricsRoute, probeRoutes } from './admin-routes.ts'
import { AdminGuard, createAdminServer } from './admin-server.ts'
import type { Metrics } from './metrics.ts'
import { createMetrics } from './metrics.ts'

interface Parts {
  readonly metrics: Pick<Metrics, 'expose'>
  readonly readiness: () => string | undefined
  readonly degradation: () => string | undefined
}

function serverOf(parts: Parts) {
  const guard = new AdminGuard({ names: [], token: undefined })
  return createAdminServer(guard, [...probeRoutes(parts), metricsRoute(parts.metrics)])
}

async function get(parts: Parts, path: string, headers: Record<string, string> = {}): Promise<Response> {
  const server = serverOf(parts).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, { headers })
  server.close()
  server.closeAllConnections()
  return answer
}

const metrics = createMetrics({ version: '1.2.3' })
const whole = { metrics, readiness: () => undefined, degradation: () => undefined }

it('/readyz asks for the reason anew at each request', async () => {
  const reasons = ['starting', undefined]
  const parts = { ...whole, readiness: () => reasons.shift() }
  const first = await get(parts, '/readyz')
  assert.deepEqual([first.status, await first.text()], [503, 'starting\n'])
  const second = await get(parts, '/readyz')
  assert.deepEqual([second.status, await second.text()], [200, 'ready\n'])
})

it('responds to probes beside any number of idle connections, new or used', async () => {
  const server = serverOf(whole).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/readyz`
  let open = 0
  let most = 0
  server.on('connection', (socket) => {
    most = Math.max(most, ++open)
    socket.once('close', () => open--)
  })
  const sockets: Socket[] = []
  for (let n = 0; n < 150; n++) {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    sockets.push(socket)
    if (n % 2 === 0) socket.write('GET /readyz HTTP/1.1\r\n\r\n')
    await once(socket, 'connect')
    if (n % 30 === 29) assert.equal(await (await fetch(url)).text(), 'ready\n')
  }
  for (let n = 0; n < 5; n++) assert.equal((await fetch(url)).status, 200)
  assert.ok(most <= 100, `${most} at once`)
  for (const socket of sockets) socket.destroy()
  server.close()
  server.closeAllConnections()
})

it('responds to probes beside any number of connections whose response does not end', async () => {
  const hung = { ...whole, metrics: { expose: () => new Promise<never>(() => {}) } }
  const server = serverOf(hung).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets: Socket[] = []
  for (let n = 0; n < 150; n++) {
    const asked = once(server, 'request')
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    sockets.push(socket)
    socket.write('GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
    await Promise.race([asked, once(socket, 'close')])
  }
  for (let n = 0; n < 5; n++) assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200)
  for (const socket of sockets) socket.destroy()
  server.close()
  server.closeAllConnections()
})

it('a fault while the metrics are collected is 500, with the mandatory headers', async () => {
  const broken = { ...metrics, expose: () => Promise.reject(new Error('no numbers')) }
  const answer = await get({ ...whole, metrics: broken }, '/metrics')
  assert.deepEqual([answer.status, await answer.text()], [500, 'Error: no numbers\n'])
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
})

it('/readyz says with 200 what the gateway lacks, and with 503 why it should get no traffic', async () => {
  const degradation = () => 'webhooks are refused'
  const degraded = await get({ ...whole, degradation }, '/readyz')
  assert.deepEqual([degraded.status, await degraded.text()], [200, 'degraded: webhooks are refused\n'])
  const unready = await get({ ...whole, degradation, readiness: () => 'draining' }, '/readyz')
  assert.deepEqual([unready.status, await unready.text()], [503, 'draining\n'])
})

it('serves one request of each connection in a turn, all from one page, and probes between turns', async () => {
  let computed = 0
  const counted = { ...metrics, expose: async () => `page ${++computed}\n` }
  const server = serverOf({ ...whole, metrics: counted }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  let probed: number | undefined
  const received = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const socket = connect(port, '127.0.0.1')
      socket.write('GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(50))
      let text = ''
      for await (const piece of socket) {
        text += piece
        if (text.split('page').length === 51) break
        if (text !== '' && probed === undefined) {
          probed = 0
          void fetch(`http://127.0.0.1:${port}/healthz`).then(() => {
            probed = computed
          })
        }
      }
      return text
    }),
  )
  for (const text of received) {
    const pages = [...text.matchAll(/^page (\d+)$/gm)].map(([, page]) => Number(page))
    assert.equal(pages.length, 50)
    assert.equal(new Set(pages).size, 50, 'each request of a connection has the page of another turn')
  }
  assert.ok(computed < 500, `${computed} pages for 1000 requests`)
  assert.ok(probed !== undefined && probed > 0 && probed < computed, `after ${probed} pages of ${computed}`)
  server.close()
  server.closeAllConnections()
})

it('closes a connection that sends more than a hundred requests ahead', async () => {
  const server = serverOf(whole).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  let received = ''
  socket.on('data', (piece) => {
    received += piece
  })
  socket.write('GET /healthz HTTP/1.1\r\n\r\n'.repeat(1000))
  await once(socket, 'close')
  const responses = received.split('HTTP/1.1 200').length - 1
  assert.ok(responses <= 100, `${responses} responses`)
  assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200)
  server.close()
  server.closeAllConnections()
})

const OPEN = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
const TEXT = 'text/plain; version=0.0.4; charset=utf-8'
for (const [accept, type] of [
  ['*/*', TEXT],
  ['application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1', OPEN],
  ['application/openmetrics-text;q=0', TEXT],
  ['text/plain, Application/OpenMetrics-Text; q=0.9', TEXT],
  ['application/openmetrics-textual', TEXT],
] as const) {
  it(`exposes metrics as ${type.split(';')[0]} to a client that accepts ${accept}`, async () => {
    const page = await get(whole, '/metrics', { accept })
    assert.equal(page.headers.get('content-type'), type)
    assert.equal((await page.text()).endsWith('# EOF\n'), type === OPEN)
  })
}
