import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { startBeats } from './beats.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire, statuses, type Wire } from './wire.ts'

const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const MAX_TUNNELS = 3
/** The default of `clockTolerance`. */
const TOLERANCE_SECONDS = 10

const handshake = (path: string, token?: string) =>
  `GET ${path} HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${token === undefined ? '' : `Authorization: Bearer ${token}\r\n`}\r\n`

/** The session that a request asks the service to end. */
const sessionToEnd = ({ url }: IncomingMessage) => /^\/logout\/(.+)$/.exec(url ?? '')?.[1]

describe('a tunnel', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const served = new Set<Duplex>()

  before(async () => {
    upstream = await startUpstream((req, res) => {
      const session = sessionToEnd(req)
      if (session !== undefined) res.setHeader('X-Revoke-Session', session)
      if (req.url === '/mine') {
        const events = setInterval(() => res.write('event '), 100)
        res.on('close', () => clearInterval(events))
      } else res.end('done')
    })
    upstream.server.on('upgrade', (req: IncomingMessage, socket: Duplex) => {
      served.add(socket)
      socket.on('error', () => {})
      socket.on('end', () => socket.end())
      socket.on('close', () => served.delete(socket))
      const key = createHash('sha1').update(`${req.headers['sec-websocket-key']}${MAGIC}`).digest('base64')
      const session = sessionToEnd(req)
      const ended = session === undefined ? '' : `X-Revoke-Session: ${session}\r\n`
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n${ended}\r\n`,
      )
      socket.on('data', (bytes: Buffer) => socket.write(bytes))
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        maxInFlight: 2,
        maxTunnels: MAX_TUNNELS,
        timeouts: { drainMs: 500 },
        routes: [
          { path: '/mine', auth: ['bearer'] },
          { path: '/token', auth: ['bearer'] },
          { path: '/recent', auth: ['bearer'], maxAuthAge: '1m' },
          { path: '/shadow', auth: ['bearer'], maxAuthAge: '1m', mode: 'shadow' },
          { path: '/idle', auth: ['none'], idleTimeoutMs: 3000 },
          { path: '/short', auth: ['none'], timeoutMs: 2000 },
          { path: '/*', auth: ['none'] },
        ],
      },
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  async function openTunnel(path: string, token?: string): Promise<Wire> {
    const wire = await openWire(gateway.port)
    wire.send(handshake(path, token))
    await wire.has('\r\n\r\n')
    assert.deepEqual(statuses(wire.received), [101])
    return wire
  }

  async function echoes(wire: Wire, text: string): Promise<void> {
    wire.send(text)
    await wire.has(new RegExp(`${text}$`))
  }

  const settled = async () => {
    for (const gauge of ['gateway_tunnels_open', 'gateway_http_requests_in_flight'])
      await until(async () => ((await gateway.metric(gauge)) === 0 ? true : undefined))
    await until(() => (served.size === 0 ? true : undefined))
  }

  it('ends soon when its session is revoked, and tunnels of other sessions go on', async () => {
    const mine = await openTunnel('/mine', await upstream.issuer.token({ sid: 'mine' }))
    const others = await openTunnel('/mine', await upstream.issuer.token({ sid: 'others' }))
    await echoes(mine, 'before')
    const beats = startBeats()
    await call(`${gateway.url}/logout/mine`)
    await mine.ended()
    assert.ok(beats.elapsedMs() < 5000)
    await echoes(others, 'after')
    others.socket.destroy()
    await settled()
    assert.equal(await gateway.metric('gateway_tunnels_ended_total{reason="session_revoked"}'), 1)
  })

  it('ends the session that the head of its 101 names, and hides that from the client', async () => {
    const authorization = `Bearer ${await upstream.issuer.token({ sid: 'named' })}`
    const status = async () => (await call(`${gateway.url}/token`, { headers: { authorization } })).status
    assert.equal(await status(), 200)
    const wire = await openTunnel('/logout/named')
    assert.doesNotMatch(wire.received, /revoke/i)
    assert.equal(await status(), 401)
    await echoes(wire, 'after')
    wire.socket.destroy()
    await settled()
  })

  it('is treated like a streamed response, which is broken off too, and the trail says why', async () => {
    const token = await upstream.issuer.token({ sid: 'streaming' })
    const wire = await openWire(gateway.port)
    wire.send(
      `GET /mine HTTP/1.1\r\nHost: gateway\r\nX-Request-ID: stream\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    )
    await wire.has('event ')
    await call(`${gateway.url}/logout/streaming`)
    await wire.ended()
    assert.equal(wire.over, 'ECONNRESET')
    assert.equal((await gateway.pair('stream'))[1].statusCode, 401)
  })

  it('ends when maxAuthAge of the row is over, unless the row is in shadow mode', async () => {
    const seconds = Math.floor(Date.now() / 1000)
    const token = await upstream.issuer.token({ auth_time: seconds + 4 - 60 - TOLERANCE_SECONDS })
    const shadow = await openTunnel('/shadow', token)
    const wire = await openTunnel('/recent', token)
    await echoes(wire, 'before')
    const beats = startBeats()
    await wire.ended()
    assert.ok(Date.now() >= (seconds + 4) * 1000)
    assert.ok(beats.elapsedMs() < 20_000)
    await echoes(shadow, 'after')
    shadow.socket.destroy()
    await settled()
    assert.equal(await gateway.metric('gateway_tunnels_ended_total{reason="token_expired"}'), 1)
  })

  it('ends when its token has expired and clockTolerance is over', async () => {
    const seconds = Math.floor(Date.now() / 1000)
    const wire = await openTunnel(
      '/mine',
      await upstream.issuer.token({ exp: seconds + 4 - TOLERANCE_SECONDS }),
    )
    await echoes(wire, 'before')
    const beats = startBeats()
    await wire.ended()
    assert.ok(Date.now() >= (seconds + 4) * 1000)
    assert.ok(beats.elapsedMs() < 20_000)
    await settled()
    assert.equal(await gateway.metric('gateway_tunnels_ended_total{reason="token_expired"}'), 2)
  })

  it('ends after timeoutMs of its route, however busy it is', async () => {
    const beats = startBeats()
    const from = performance.now()
    const wire = await openTunnel('/short')
    const busy = setInterval(() => wire.send('x'), 50)
    await wire.ended()
    clearInterval(busy)
    // A timer may fire a moment early.
    assert.ok(performance.now() - from >= 1990)
    assert.ok(beats.elapsedMs() < 20_000)
    await settled()
    assert.equal(await gateway.metric('gateway_tunnels_ended_total{reason="timeout"}'), 1)
  })

  it('ends when both sides are silent for the idle time of its route, but not while one sends', async () => {
    const wire = await openTunnel('/idle')
    const from = performance.now()
    for (let i = 0; performance.now() - from < 3500; i++) {
      await echoes(wire, `piece ${i}`)
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    await wire.ended()
    await settled()
    assert.equal(await gateway.metric('gateway_tunnels_ended_total{reason="idle"}'), 1)
  })

  it('counts for maxTunnels, but not for maxInFlight', async () => {
    const wires: Wire[] = []
    for (let i = 0; i < MAX_TUNNELS; i++) wires.push(await openTunnel('/open'))
    assert.equal((await call(`${gateway.url}/open`)).status, 200)
    const refused = await sendBytes(gateway.port, handshake('/open'))
    assert.equal(statusOf(refused), 503)
    assert.match(refused, /"code":"overloaded"/)
    assert.match(refused, /\r\nretry-after: 1\r\n/i)
    for (const wire of wires) wire.socket.destroy()
    await settled()
  })
})
