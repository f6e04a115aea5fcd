import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { commonGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire, statuses, type Wire } from './wire.ts'

const HELD = 'GET /held HTTP/1.1\r\nHost: a\r\n\r\n'
const AHEAD = 'GET /ahead HTTP/1.1\r\n\r\n'
const POST = 'POST /reset HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}'

describe('a client that goes away at once', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const forwardedFor = new Set<string>()
  before(async () => {
    upstream = await startUpstream((req, res) => {
      forwardedFor.add(String(req.headers['x-forwarded-for']))
      if (req.url !== '/held') res.end()
    })
    gateway = await commonGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
    })
  })
  after(() => upstream.close())

  const recordsOf = (path: string) => gateway.audit().filter((record) => record.path === path)

  it('is named by its address in the records of 100 requests that it sends and resets', async () => {
    const records = await until(async () => {
      // On a busy machine all may be reset before the gateway accepts one. Then this sends them again.
      await Promise.all(Array.from({ length: 100 }, sendAndReset))
      // The gateway reads this request last.
      const last = await openWire(gateway.port)
      last.send('GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
      await last.ended()
      const found = recordsOf('/reset')
      return found.length > 0 && found.length % 2 === 0 ? found : undefined
    })
    assert.deepEqual([...new Set(records.map(({ ip }) => ip))], ['127.0.0.1'])
    assert.deepEqual([...forwardedFor], ['127.0.0.1'])
  })

  it('leaves one pair of records, and a count of the requests that it sent ahead', async () => {
    const wire = await openWire(gateway.port)
    const count = () => gateway.metric('gateway_requests_abandoned_total')
    const before = await count()
    wire.send(`${HELD}${AHEAD.repeat(2000)}`)
    await until(() => recordsOf('/held').length === 1 || undefined)
    wire.socket.resetAndDestroy()
    await until(() => recordsOf('/held').length === 2 || undefined)
    const abandoned = await until(async () => (await count()) - before || undefined)
    assert.ok(abandoned > 1000 && abandoned <= 2000, String(abandoned))
    assert.equal(recordsOf('/ahead').length, 0)
    const line = await gateway.process.line(
      ({ msg, requests }) => String(msg).includes('could be begun') && requests === abandoned,
    )
    assert.equal(line.ip, '127.0.0.1')
  })

  it('is named by its address when it closes its half in the middle of a head', async () => {
    const wire = await openWire(gateway.port)
    wire.send('GET /half-a-head HTTP/1.1\r\nHost: ')
    wire.socket.end()
    const [request, response] = await until(() => {
      const records = recordsOf('/half-a-head')
      return records.length === 2 ? records : undefined
    })
    assert.deepEqual([request?.ip, response?.ip], ['127.0.0.1', '127.0.0.1'])
  })

  function sendAndReset(): Promise<void> {
    const socket = connect({ port: gateway.port, host: '127.0.0.1', noDelay: true })
    socket.on('error', () => {})
    socket.on('connect', () => socket.write(POST, () => socket.resetAndDestroy()))
    return new Promise((resolve) => socket.on('close', () => resolve()))
  }
})

describe('a client that takes all it can get', () => {
  const MAX_IN_FLIGHT = 16
  const GREEDY = '127.0.0.2'
  const PROXY = '127.0.0.9'
  let upstream: TestUpstream
  let gateway: TestGateway
  const held = new Set<ServerResponse>()
  before(async () => {
    upstream = await startUpstream((req, res) => {
      if (req.url !== '/held') {
        res.end()
        return
      }
      held.add(res)
      res.on('close', () => held.delete(res))
    })
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        maxInFlight: MAX_IN_FLIGHT,
        trustedProxies: [PROXY],
        routes: [{ path: '/*', auth: ['none'] }],
      },
    })
  })
  after(async () => {
    upstream.close()
  })

  async function send(localAddress: string, bytes: string): Promise<Wire> {
    const wire = await openWire(gateway.port, { localAddress })
    wire.send(bytes)
    return wire
  }

  function sendMany(localAddress: string, bytes: string): Promise<Wire[]> {
    return Promise.all(Array.from({ length: 2 * MAX_IN_FLIGHT }, () => send(localAddress, bytes)))
  }

  async function end(wires: readonly Wire[]): Promise<void> {
    for (const { socket } of wires) socket.resetAndDestroy()
    await until(async () => (await gateway.metric('gateway_http_requests_in_flight')) === 0 || undefined)
  }

  /** The status of a request that gets its response at once. */
  async function statusFor(localAddress: string, lines = ''): Promise<number | undefined> {
    const wire = await send(localAddress, `GET / HTTP/1.1\r\nHost: a\r\n${lines}Connection: close\r\n\r\n`)
    return statuses(await wire.ended())[0]
  }

  it('uses no place in flight and no upstream connection by bodies that it never ends', async () => {
    const wires = await sendMany(GREEDY, 'POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1')
    await until(
      async () =>
        (await gateway.metric('gateway_http_requests_in_flight')) === 2 * MAX_IN_FLIGHT || undefined,
    )
    for (const address of [GREEDY, '127.0.0.3']) assert.equal(await statusFor(address), 200)
    await end(wires)
  })

  it('is refused beyond three quarters of the places, and no other client is', async () => {
    const wires = await sendMany(GREEDY, HELD)
    const refused = () => wires.filter(({ received }) => received.includes('"code":"overloaded"')).length
    await until(() => held.size + refused() === 2 * MAX_IN_FLIGHT || undefined)
    assert.equal(held.size, (MAX_IN_FLIGHT * 3) / 4)
    assert.equal(await statusFor(GREEDY), 503)
    for (let i = 3; i < 8; i++) assert.equal(await statusFor(`127.0.0.${i}`), 200)
    await end(wires)
    assert.equal(await statusFor(GREEDY), 200)
  })

  it('is distinguished from others behind a trusted proxy by the address that the proxy gives', async () => {
    const lines = (last: number) => `X-Forwarded-For: 198.51.100.${last}\r\n`
    const wires = await sendMany(PROXY, HELD.replace('\r\n\r\n', `\r\n${lines(1)}\r\n`))
    const refused = () => wires.filter(({ received }) => received.includes('"code":"overloaded"')).length
    await until(() => held.size + refused() === 2 * MAX_IN_FLIGHT || undefined)
    assert.equal(held.size, (MAX_IN_FLIGHT * 3) / 4)
    assert.equal(await statusFor(PROXY, lines(1)), 503)
    assert.equal(await statusFor(PROXY, lines(2)), 200)
    assert.equal(await statusFor(PROXY), 200)
    await end(wires)
  })
})
