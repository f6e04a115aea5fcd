import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { startGateway, type TestGateway, until } from './gateway.ts'
import { startUpstream, type TestUpstream } from './upstream.ts'
import { openWire } from './wire.ts'

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
    gateway = await startGateway({
      config: { upstream: upstream.url, routes: [{ path: '/*', auth: ['none'] }] },
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  const recordsOf = (path: string) => gateway.audit().filter((record) => record.path === path)

  it('is named in the records of what it asked for: 100 requests sent and reset', async () => {
    await Promise.all(Array.from({ length: 100 }, sendAndReset))
    // What comes last is read last.
    const last = await openWire(gateway.port)
    last.send('GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await last.ended()
    await until(() => recordsOf('/reset').length % 2 === 0 || undefined)
    const addresses = new Set(gateway.audit().map(({ ip }) => ip))
    addresses.delete(undefined)
    assert.deepEqual([...addresses], ['127.0.0.1'])
    assert.deepEqual([...forwardedFor], ['127.0.0.1'])
  })

  it('leaves one pair, and one number, of thousands of requests that it sent ahead', async () => {
    const wire = await openWire(gateway.port)
    wire.send(`${HELD}${AHEAD.repeat(2000)}`)
    await until(() => recordsOf('/held').length === 1 || undefined)
    wire.socket.resetAndDestroy()
    await until(() => recordsOf('/held').length === 2 || undefined)
    const abandoned = await until(
      async () => (await gateway.metric('gateway_requests_abandoned_total')) || undefined,
    )
    assert.ok(abandoned > 1000 && abandoned <= 2000, String(abandoned))
    assert.equal(recordsOf('/ahead').length, 0)
    const line = await gateway.process.line(({ msg }) => String(msg).includes('could be begun'))
    assert.deepEqual([line.ip, line.requests], ['127.0.0.1', abandoned])
  })

  it('is named when it has closed its half in the middle of a head', async () => {
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
