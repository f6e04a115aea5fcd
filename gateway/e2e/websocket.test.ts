import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sendBytes, statusOf } from './client.ts'
import { heldBytes, MEASURABLE } from './held-memory.ts'
import { describeWithPrograms } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { headerLines, headerOf, openWire, statuses, type Wire } from './wire.ts'

/** RFC 6455 section 1.3. */
const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
const MANDATORY = [
  'strict-transport-security',
  'x-content-type-options',
  'x-frame-options',
  'x-xss-protection',
  'x-request-id',
  'cache-control',
]

const handshake = (path: string, lines = '') =>
  `GET ${path} HTTP/1.1\r\nHost: gateway\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n${lines}\r\n`

/** A text frame of the server: not masked, shorter than 126 bytes (RFC 6455 section 5.2). */
function frame(text: string): Buffer {
  return Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)])
}

/** The text of a masked frame of the client, shorter than 126 bytes; undefined for any other. */
function textOf(bytes: Buffer): string | undefined {
  if (bytes[0] !== 0x81) return undefined
  const length = (bytes[1] as number) & 0x7f
  const mask = bytes.subarray(2, 6)
  return bytes
    .subarray(6, 6 + length)
    .map((byte, i) => byte ^ (mask[i % 4] as number))
    .toString()
}

describe('a WebSocket', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  const upgrades: { readonly req: IncomingMessage; readonly socket: Duplex }[] = []

  before(async () => {
    upstream = await startUpstream()
    upstream.server.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.on('error', () => {})
      if (req.url !== '/open/half') socket.on('end', () => socket.end())
      upgrades.push({ req, socket })
      if (head.length > 0) socket.unshift(head)
      if (req.url === '/open/refuse') {
        socket.end(
          'HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\nServer: x\r\nConnection: close\r\n\r\nno!\n',
        )
      } else if (req.url === '/open/other') {
        socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n')
      } else if (req.url !== '/open/silent') accept(req, socket)
    })
    gateway = await startGateway({
      env: MEASURABLE,
      config: {
        upstream: upstream.url,
        timeouts: { drainMs: 500 },
        routes: [
          { path: '/open/*', auth: ['none'] },
          { path: '/private', auth: ['bearer'] },
          { path: '/limited', auth: ['none'] },
        ],
      },
      limits: [{ path: '/limited', limit: 1, window: '1h', purpose: 'tests' }],
    })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  /** A minimal server side: the handshake, then the echo of each short text, in capitals. */
  function accept(req: IncomingMessage, socket: Duplex): void {
    const key = createHash('sha1').update(`${req.headers['sec-websocket-key']}${MAGIC}`).digest('base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Internal\r\nX-Internal: x\r\nServer: x\r\nCache-Control: public\r\nX-Revoke-Session: nobody\r\nSec-WebSocket-Accept: ${key}\r\n\r\n`,
    )
    if (/raw|half/.test(req.url ?? '')) return
    socket.write(frame('welcome'))
    socket.on('data', (bytes: Buffer) => {
      const text = textOf(bytes)
      if (text !== undefined) socket.write(frame(text.toUpperCase()))
      // Close is sent back, then the connection ends (RFC 6455 section 5.5.1).
      else if (bytes[0] === 0x88) socket.end(Buffer.from([0x88, 0]))
    })
  }

  async function openTunnel(path = '/open/raw', lines = ''): Promise<{ wire: Wire; server: Duplex }> {
    const from = upgrades.length
    const wire = await openWire(gateway.port)
    wire.send(handshake(path, lines))
    await wire.has('\r\n\r\n')
    assert.deepEqual(statuses(wire.received), [101])
    return { wire, server: (upgrades[from] as { socket: Duplex }).socket }
  }

  /** Waits until the connection of the upstream is closed. */
  const gone = (server: Duplex) => {
    server.resume()
    return until(() => (server.readableEnded || server.destroyed ? true : undefined))
  }

  it('of a real client works in both directions, until it is closed properly', async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/open/echo`)
    const texts: string[] = []
    socket.addEventListener('message', ({ data }) => {
      texts.push(String(data))
      if (texts.length === 1) socket.send('hello')
      else socket.close()
    })
    const [event] = (await once(socket, 'close')) as [CloseEvent]
    assert.deepEqual(texts, ['welcome', 'HELLO'])
    assert.equal(event.wasClean, true)
  })

  it('has the mandatory headers on its 101, and its 101 is in the audit trail', async () => {
    const { wire } = await openTunnel('/open/raw', 'X-Request-ID: tunnelled\r\n')
    for (const name of MANDATORY) assert.notEqual(headerOf(wire.received, name), undefined, name)
    assert.equal(headerOf(wire.received, 'cache-control'), 'no-store')
    assert.equal(headerOf(wire.received, 'sec-websocket-accept'), ACCEPT)
    assert.equal(headerOf(wire.received, 'connection'), 'Upgrade')
    const names = headerLines(wire.received).map(([name]) => name)
    for (const name of ['server', 'x-internal', 'x-revoke-session']) assert.ok(!names.includes(name), name)
    const [, response] = await gateway.pair('tunnelled')
    assert.equal(response.statusCode, 101)
    assert.equal(response.path, '/open/raw')
    wire.socket.destroy()
  })

  it('reaches the upstream with the same headers as any request', async () => {
    const from = upgrades.length
    const token = await upstream.issuer.token()
    const { wire } = await openTunnel(
      '/private',
      `Authorization: Bearer ${token}\r\nX-Auth-Subject: root\r\nX-Forwarded-For: 1.1.1.1\r\nSec-WebSocket-Protocol: chat\r\n`,
    )
    const { headers } = (upgrades[from] as { req: IncomingMessage }).req
    assert.equal(headers['x-auth-subject'], 'user-1')
    assert.equal(headers['x-forwarded-for'], '127.0.0.1')
    assert.match(String(headers['cdn-loop']), /^countersign; id=/)
    assert.equal(headers['sec-websocket-key'], KEY)
    assert.equal(headers['sec-websocket-protocol'], 'chat')
    assert.equal(headers.connection?.toLowerCase(), 'upgrade')
    wire.socket.destroy()
  })

  it('carries bytes that the client sent too early, and all bytes that a side sent before its end', async () => {
    const from = upgrades.length
    const wire = await openWire(gateway.port)
    wire.send(`${handshake('/open/raw')}too early`)
    await wire.has('\r\n\r\n')
    const { socket: server } = upgrades[from] as { socket: Duplex }
    let heard = ''
    server.on('data', (bytes: Buffer) => {
      heard += bytes.toString()
    })
    await until(() => (heard === 'too early' ? true : undefined))
    const head = wire.received.length
    server.end(Buffer.alloc(5_000_000, 97))
    await wire.ended()
    assert.equal(wire.received.length - head, 5_000_000)
    assert.equal(wire.over, 'end')
  })

  it('goes on in one direction when the other has ended', async () => {
    const { wire, server } = await openTunnel('/open/half')
    let heard = ''
    server.on('data', (bytes: Buffer) => {
      heard += bytes.toString()
    })
    wire.socket.end('last words')
    await once(server, 'end')
    assert.equal(heard, 'last words')
    // Longer than the gateway waits for a client outside of a tunnel.
    setTimeout(() => server.end('answer'), 700)
    await wire.has(/answer$/)
  })

  for (const reader of ['client', 'upstream'] as const)
    it(`holds the sender back: the gateway buffers little for a ${reader} that does not read`, async () => {
      const before = await heldBytes(gateway)
      const { wire, server } = await openTunnel()
      const [silent, writing] = reader === 'client' ? [wire.socket, server] : [server, wire.socket]
      silent.pause()
      const piece = Buffer.alloc(65_536)
      let written = 0
      await new Promise<void>((resolve) => {
        let calm = 0
        let last = -1
        const timer = setInterval(() => {
          while (written < 100_000_000 && !writing.writableNeedDrain) {
            writing.write(piece)
            written += piece.length
          }
          calm = written === last ? calm + 1 : 0
          last = written
          if (calm < 30) return
          clearInterval(timer)
          resolve()
        }, 10)
      })
      const held = (await heldBytes(gateway)) - before
      // Closes both ends before the assertions, because an open connection would keep the test file running.
      wire.socket.destroy()
      await gone(server)
      assert.ok(written < 30_000_000, `${written} bytes were taken`)
      assert.ok(held < 60_000_000, `${held} bytes are held`)
    })

  it('ends upstream when its client goes away, also before the 101', async () => {
    const { wire, server } = await openTunnel()
    wire.socket.resetAndDestroy()
    await gone(server)

    for (const how of ['destroy', 'resetAndDestroy'] as const) {
      const from = upgrades.length
      const early = await openWire(gateway.port)
      early.send(handshake('/open/silent', `X-Request-ID: silent-${how}\r\n`))
      const waiting = await until(() => upgrades[from])
      early.socket[how]()
      assert.equal((await gateway.pair(`silent-${how}`))[1].statusCode, 499)
      await gone(waiting.socket)
    }
  })

  it('ends downstream when its upstream goes away', async () => {
    const { wire, server } = await openTunnel()
    server.destroy()
    await wire.ended()
  })

  const refused: [string, string, number, string?][] = [
    ['without a token', handshake('/private'), 401, 'missing_token'],
    ['at an unknown path', handshake('/nowhere'), 404, 'not_found'],
    ['with an edge rule broken', handshake('/open/a;b'), 400, 'invalid_target'],
    ['when the upstream switches to another protocol', handshake('/open/other'), 502, 'upstream_malformed'],
    ['by the upstream', handshake('/open/refuse'), 403],
  ]
  for (const [what, bytes, status, code] of refused) {
    it(`is refused ${what} with ${status}, with the mandatory headers and both records`, async () => {
      const answer = await sendBytes(gateway.port, bytes)
      assert.equal(statusOf(answer), status)
      for (const name of MANDATORY) assert.notEqual(headerOf(answer, name), undefined, name)
      assert.equal(headerOf(answer, 'server'), undefined)
      assert.equal(headerOf(answer, 'connection'), 'close')
      if (code === undefined) assert.ok(answer.endsWith('\r\n\r\nno!\n'))
      else assert.match(answer, new RegExp(`"code":"${code}"`))
      assert.equal((await gateway.pair(headerOf(answer, 'x-request-id') as string))[1].statusCode, status)
    })
  }

  it('is counted by limits like any request', async () => {
    const { wire } = await openTunnel('/limited')
    assert.equal(headerOf(wire.received, 'ratelimit'), '"limited";r=0;t=3600')
    wire.socket.destroy()
    assert.equal(statusOf(await sendBytes(gateway.port, handshake('/limited'))), 429)
  })

  const ordinary: [string, string][] = [
    ['without Connection: Upgrade', handshake('/open/a').replace('keep-alive, Upgrade', 'close')],
    ['in HTTP/1.0', handshake('/open/a').replace('HTTP/1.1', 'HTTP/1.0')],
    ['without a version', handshake('/open/a').replace(/Sec-WebSocket-Version.*\r\n/, '')],
    ['without a key', handshake('/open/a').replace(/Sec-WebSocket-Key.*\r\n/, '')],
    ['by POST', handshake('/open/a').replace('GET', 'POST')],
    ['with a body', handshake('/open/a', 'Content-Length: 5\r\n').concat('hello')],
  ]
  for (const [what, bytes] of ordinary) {
    it(`asked for ${what} is an ordinary request`, async () => {
      const from = upgrades.length
      const answer = await sendBytes(gateway.port, `${bytes}`)
      assert.deepEqual(statuses(answer), [200])
      assert.equal(upgrades.length, from)
      assert.equal(upstream.seen.at(-1)?.headers.upgrade, undefined)
    })
  }

  it('opens for a client that sends Content-Length: 0, as the JDK does', async () => {
    const wire = await openWire(gateway.port)
    wire.send(handshake('/open/a', 'Content-Length: 0\r\n'))
    await wire.has('\r\n\r\n')
    assert.match(wire.received, /^HTTP\/1\.1 101 /)
    wire.socket.destroy()
  })

  it('of another version is refused with 426, which names the supported version', async () => {
    for (const version of ['99', '8', '13, 8', '']) {
      const from = upgrades.length
      const answer = await sendBytes(
        gateway.port,
        handshake('/open/a').replace('Version: 13', `Version: ${version}`),
      )
      assert.deepEqual(statuses(answer), [426], version)
      assert.equal(headerOf(answer, 'sec-websocket-version'), '13')
      assert.equal(headerOf(answer, 'upgrade'), 'websocket')
      assert.match(answer, /"code":"websocket_version"/)
      for (const name of MANDATORY) assert.notEqual(headerOf(answer, name), undefined, name)
      assert.equal(upgrades.length, from)
    }
  })

  describeWithPrograms({ title: 'of the JDK', programs: ['java'], isListed: true }, ({ java }) => {
    it('opens, and carries texts both ways', async () => {
      const program = fileURLToPath(new URL('./java-programs/EchoThroughWebSocket.java', import.meta.url))
      const url = `ws://127.0.0.1:${gateway.port}/open/a`
      const { stdout } = await promisify(execFile)(java, [program, url], { timeout: 120_000 })
      assert.equal(stdout, 'FROM THE JDK\n')
    })
  })

  it('is closed at the deadline of a drain', async () => {
    const { wire } = await openTunnel()
    assert.equal(await gateway.end(), 0)
    await wire.ended()
    assert.equal(gateway.audit().at(-1)?.type, 'AUDIT_STOP')
  })
})
