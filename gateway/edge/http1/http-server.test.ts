import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { connect as connectSecure } from 'node:tls'
import { makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import { GET, until } from './conformance/client.test-support.ts'
import { connectionsOf, respondEmpty, type Seen, scribe } from './conformance/scribe.test-support.ts'
import { turns } from './conformance/wire.test-support.ts'
import { createHttpServer, createSecureHttpServer } from './http-server.ts'

const ROOM = 40
const HANDSHAKE_MS = 60_000
const GREEDY = '127.0.0.2'
const HALF = 'GET / HTTP/1.1\r\nHost: '

const certificate = await makeAuthority({ subject: 'CN=localhost' })

interface Ground {
  readonly seen: readonly Seen[]
  /** Opens a connection. */
  open(localAddress: string): Promise<Socket>
  /** Resolves when the server has no connection. */
  emptied(): Promise<void>
  /** How many of `sockets` are still open. */
  standing(sockets: readonly Socket[]): number
}

/** A server with room for {@link ROOM} connections. */
async function listening(t: TestContext, secure: boolean, noResponse = false): Promise<Ground> {
  const handler = scribe(noResponse ? { begun: () => {} } : { begun: respondEmpty })
  const connections = connectionsOf(handler, { maxConnections: ROOM })
  const http = secure
    ? createSecureHttpServer(connections, {
        cert: certificate.certPem,
        key: certificate.keyPem,
        handshakeTimeout: HANDSHAKE_MS,
      })
    : createHttpServer(connections)
  http.server.listen(0, '127.0.0.1')
  await once(http.server, 'listening')
  const { port } = http.server.address() as AddressInfo
  const opened: Socket[] = []
  t.after(async () => {
    for (const socket of opened) socket.destroy()
    http.closeIdleConnections()
    await http.close()
  })
  return {
    seen: handler.seen,
    emptied: () => connections.emptied(),
    async open(localAddress) {
      const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true })
      opened.push(socket)
      socket.on('error', () => {}).resume()
      await once(socket, 'connect')
      return socket
    },
    standing: (sockets) => sockets.filter(({ closed, readableEnded }) => !closed && !readableEnded).length,
  }
}

function openMany({ open }: Ground, count: number, address = GREEDY): Promise<Socket[]> {
  return Promise.all(Array.from({ length: count }, () => open(address)))
}

/** True when a request over this connection gets a response. */
async function isAnswered(socket: Socket): Promise<boolean> {
  let text = ''
  socket.on('data', (piece) => {
    text += piece.toString('latin1')
  })
  socket.write(GET)
  await until(() => text.endsWith('\r\n\r\n') || socket.closed || socket.readableEnded)
  return text.startsWith('HTTP/1.1 200 ')
}

async function isServedSecurely(ground: Ground, address: string): Promise<boolean> {
  const raw = await ground.open(address)
  const socket = connectSecure({ socket: raw, rejectUnauthorized: false })
  socket.on('error', () => {})
  return isAnswered(socket)
}

describe('one address that opens connections without end', () => {
  it('keeps nobody else out with handshakes that it never completes', async (t) => {
    const ground = await listening(t, true)
    const silent = await openMany(ground, 3 * ROOM)
    for (let i = 1; i <= 5; i++) assert.equal(await isServedSecurely(ground, `127.0.0.${10 + i}`), true)
    await until(() => ground.standing(silent) <= (ROOM * 3) / 4)
  })

  it('keeps nobody else out with requests that it never completes', async (t) => {
    const ground = await listening(t, false)
    const silent = await openMany(ground, 3 * ROOM)
    for (const socket of silent) socket.write(HALF)
    await turns(20)
    for (let i = 1; i <= 5; i++) assert.equal(await isAnswered(await ground.open(`127.0.0.${10 + i}`)), true)
    await until(() => ground.standing(silent) <= (ROOM * 3) / 4)
  })

  it('loses connections to others that come later, even some with an open request', async (t) => {
    const ground = await listening(t, false, true)
    const greedy = await openMany(ground, ROOM / 2)
    for (const socket of greedy) socket.write(GET)
    await until(() => ground.seen.length === ROOM / 2)
    const others: Socket[] = []
    for (let i = 1; i <= ROOM / 2 + 3; i++) {
      const other = await ground.open(`127.0.1.${i}`)
      other.write(GET)
      others.push(other)
      await until(() => ground.seen.length === ROOM / 2 + i)
    }
    assert.deepEqual([ground.standing(greedy), ground.standing(others)], [ROOM / 2 - 3, others.length])
  })

  it('is not served beyond its share, which is three quarters of the room', async (t) => {
    const ground = await listening(t, false, true)
    const greedy = await openMany(ground, ROOM)
    for (const socket of greedy) socket.write(GET)
    await until(() => ground.standing(greedy) === (ROOM * 3) / 4)
    await until(() => ground.seen.length === (ROOM * 3) / 4)
  })

  it('loses an idle connection to a new one of its own, also behind TLS', async (t) => {
    const ground = await listening(t, true)
    const idle: Socket[] = []
    for (let i = 0; i < ROOM; i++) {
      const raw = await ground.open(GREEDY)
      idle.push(raw)
      const socket = connectSecure({ socket: raw, rejectUnauthorized: false })
      socket.on('error', () => {})
      assert.equal(await isAnswered(socket), true)
    }
    await until(() => ground.standing(idle) === (ROOM * 3) / 4)
    assert.equal(await isServedSecurely(ground, GREEDY), true)
    await until(() => ground.standing(idle) === (ROOM * 3) / 4 - 1)
  })

  it('loses an idle connection to a new one of its own', async (t) => {
    const ground = await listening(t, false)
    const idle = await openMany(ground, ROOM)
    await until(() => ground.standing(idle) === (ROOM * 3) / 4)
    assert.equal(await isAnswered(await ground.open(GREEDY)), true)
    await until(() => ground.standing(idle) === (ROOM * 3) / 4 - 1)
  })
})

it('a client that leaves in its TLS handshake is forgotten at once', async (t) => {
  const ground = await listening(t, true)
  const [ended, reset] = (await openMany(ground, 2)) as [Socket, Socket]
  ended.write(Buffer.of(22, 3, 1))
  await turns(20)
  ended.end()
  reset.resetAndDestroy()
  const startMs = performance.now()
  await ground.emptied()
  assert.ok(performance.now() - startMs < HANDSHAKE_MS / 2)
})

describe('a response behind TLS that is broken off while its client takes nothing of it', () => {
  it('is not kept by the system for the client to take later, because the connection below is reset', async (t) => {
    const ground = await listening(t, true, true)
    const raw = await ground.open(GREEDY)
    const socket = connectSecure({ socket: raw, rejectUnauthorized: false })
    const failed = new Promise((resolve) => {
      socket.once('error', resolve).once('end', () => resolve('ended'))
    })
    socket.write(GET)
    await until(() => ground.seen.length === 1)
    const [{ res }] = ground.seen as [Seen]
    res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: false })
    const piece = Buffer.alloc(1024 * 1024)
    for (let i = 0; i < 32; i++) res.write(piece)
    await turns(5)
    res.breakOff()
    socket.resume()
    assert.equal(((await failed) as NodeJS.ErrnoException).code, 'ECONNRESET')
  })
})
