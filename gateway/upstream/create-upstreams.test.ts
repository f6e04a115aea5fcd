import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import {
  bodyOf,
  ok,
  pair,
  requestOf,
  reset,
  type ScriptedOptions,
  send,
  until,
} from './contract/scripted.test-support.ts'
import { UpgradedStream } from './http1/http1-connection.ts'

const RESPONSE: ScriptedOptions = { onRequest: ({ socket }) => socket.write(ok('x')) }

describe('an idle connection', () => {
  it('is closed after four seconds, and the last used connection is used first', async (t) => {
    let nowMs = 0
    const { scripted, upstream } = await pair(t, RESPONSE, { clock: () => nowMs })
    await Promise.all([send(upstream).over, send(upstream).over])
    nowMs = 3000
    for (let i = 0; i < 3; i++) await send(upstream).over
    const sockets = new Set(scripted.requests.slice(2).map(({ socket }) => socket))
    assert.equal(sockets.size, 1)
    nowMs = 4000
    await until(() => scripted.open.size === 1)
    assert.ok(sockets.has([...scripted.open][0]!))
    nowMs = 6999
    assert.ok((await send(upstream).over).ended)
    assert.equal(scripted.connections, 2)
    nowMs = 10_999
    // The connection is too old to be used again, though no sweep has come by.
    assert.ok((await send(upstream).over).ended)
    assert.equal(scripted.connections, 3)
  })

  it('lasts as long as the upstream announces, less two seconds and at most a minute', async (t) => {
    let nowMs = 0
    const { scripted, upstream } = await pair(
      t,
      { onRequest: ({ socket }) => socket.write(ok('x', 'Keep-Alive: max=9, timeout=600\r\n')) },
      { clock: () => nowMs },
    )
    await send(upstream).over
    nowMs = 59_999
    await send(upstream).over
    assert.equal(scripted.connections, 1)
    nowMs += 60_000
    await send(upstream).over
    assert.equal(scripted.connections, 2)
  })
})

describe('a request that the connection refuses at once', () => {
  it('has not been sent, and goes out on another connection, whatever its method and its body', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    const bodies: (() => Readable | null)[] = [
      () => null,
      () => ready('abc'),
      () => Readable.from([Buffer.from('abc')]),
    ]
    for (const body of bodies) {
      const requests = scripted.requests.length
      assert.ok((await send(upstream, { method: 'POST' }).over).ended)
      // The reset is there before the call, and is read after it.
      const closed = [...scripted.open].map((socket) => {
        reset(socket)
        return once(socket, 'close')
      })
      await Promise.all(closed)
      const headers = body() === null ? ['host', 'h'] : ['host', 'h', 'content-length', '3']
      const received = await send(upstream, { method: 'POST', headers, body: body() }).over
      assert.ok(received.ended, String(received.fault?.cause))
      assert.equal(scripted.requests.length, requests + 2)
      if (body() !== null) assert.equal(scripted.requests.at(-1)?.body, 'abc')
    }
  })
})

function ready(text: string): Readable {
  const source = new Readable({ read() {} })
  source.push(text)
  return source
}

describe('a body that is there already', () => {
  it('goes out whole, however long it is', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    for (const bytes of [1, 4096, 4097, 60_000]) {
      const text = `${'\xff'.repeat(bytes - 1)}!`
      const source = new Readable({ read() {} })
      source.push(Buffer.from(text, 'latin1'))
      const headers = ['host', 'h', 'content-length', String(bytes)]
      assert.ok((await send(upstream, { method: 'PUT', headers, body: source }).over).ended)
      assert.equal(scripted.requests.at(-1)?.body, text)
    }
  })

  it('of length zero is sent as none, and a body that was read before is no body', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    const headers = ['host', 'h', 'content-length', '0']
    assert.ok((await send(upstream, { method: 'PUT', headers, body: Readable.from([]) }).over).ended)
    const read = Readable.from([Buffer.from('abc')])
    await read.toArray()
    assert.ok((await send(upstream, { method: 'PUT', body: read }).over).ended)
    const received = await send(upstream, {
      method: 'PUT',
      headers: ['host', 'h', 'content-length', '3'],
      body: read,
    }).over
    assert.equal(received.fault?.kind, 'broken')
    assert.deepEqual(
      scripted.requests.map(({ body }) => body),
      ['', '0\r\n\r\n'],
    )
  })
})

describe('a call with characters that are more than a byte', () => {
  it('cannot be sent, because they would become other characters on the wire, perhaps a line feed', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    for (const call of [
      { target: '/\u010d\u010a' },
      { method: 'GET\u0120' },
      { target: '/\t' },
      { headers: ['host', 'h', 'content-length', '3'] },
    ])
      assert.equal((await send(upstream, call).over).fault?.kind, 'unreachable')
    assert.equal(scripted.requests.length, 0)
    assert.ok((await send(upstream, { target: '/\xe9' }).over).ended)
  })

  it('is found among any number of names', async (t) => {
    const { upstream } = await pair(t, RESPONSE)
    for (let i = 0; i < 1100; i += 11) {
      const headers = Array.from({ length: 11 }, (_, n) => [`x-${i + n}`, 'v']).flat()
      assert.ok((await send(upstream, { headers: ['host', 'h', ...headers] }).over).ended)
    }
    assert.ok((await send(upstream, { headers: ['host', 'h', 'Upgrade', 'v'] }).over).fault)
  })
})

describe('what one connection reads', () => {
  it('is not changed by what another connection reads, also when its receiver keeps it or pauses', async (t) => {
    // Shorter chunks that come together would be one piece.
    const [ours, theirs] = ['held-out', 'somebody'].map((text) => text.repeat(600)) as [string, string]
    const chunks = (text: string): string =>
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${`12c0\r\n${text}\r\n`.repeat(3)}0\r\n\r\n`
    const { upstream } = await pair(t, {
      onRequest: ({ socket, head }) => socket.write(chunks(head.includes('/held') ? ours : theirs)),
    })
    const kept: Buffer[] = []
    const over = Promise.withResolvers<void>()
    const call = upstream.send(requestOf({ target: '/held' }), {
      isHolding: true,
      information() {},
      head() {},
      data: (chunk) => kept.push(chunk) > 3,
      end: () => over.resolve(),
      upgrade() {},
      fault: ({ cause }) => over.reject(new Error(cause)),
    })
    for (let pieces = 1; pieces <= 3; pieces++) {
      await until(() => kept.length === pieces)
      for (let i = 0; i < 3; i++) assert.equal(bodyOf(await send(upstream).over), theirs.repeat(3))
      call.resume()
    }
    await over.promise
    assert.equal(Buffer.concat(kept).toString(), ours.repeat(3))
  })
})

describe('a paused connection', () => {
  it('is used again when its receiver has taken all', async (t) => {
    const big = 'y'.repeat(300_000)
    const { scripted, upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(ok(big)) })
    for (let i = 0; i < 3; i++) {
      const sent = send(upstream, {}, (_, call) => {
        setImmediate(() => call.resume())
        return false
      })
      assert.equal(bodyOf(await sent.over), big)
    }
    assert.equal(scripted.connections, 1)
  })

  it('is read again when its last piece was among the bytes held back', async (t) => {
    const chunks =
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n'
    const { scripted, upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(chunks) })
    for (let i = 0; i < 3; i++) {
      const sent = send(upstream, {}, (_, call) => {
        setImmediate(() => call.resume())
        return false
      })
      assert.equal(bodyOf(await sent.over), 'abc')
    }
    assert.equal(scripted.connections, 1)
  })

  it('reports the end at once to a receiver that has the whole body', async (t) => {
    const { scripted, upstream } = await pair(t, RESPONSE)
    for (let i = 0; i < 3; i++) assert.ok((await send(upstream, {}, () => false).over).ended)
    assert.equal(scripted.connections, 1)
  })

  it('gives the whole body though the connection ends after it', async (t) => {
    const big = 'z'.repeat(200_000)
    const { upstream } = await pair(t, {
      onRequest: ({ socket }) => socket.end(`HTTP/1.1 200 OK\r\n\r\n${big}`),
    })
    const sent = send(upstream, {}, (_, call) => {
      setTimeout(() => call.resume(), 1)
      return false
    })
    assert.equal(bodyOf(await sent.over), big)
  })
})

describe('an upgraded connection', () => {
  const SWITCH = 'HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'

  async function upgraded(t: TestContext) {
    const { scripted, upstream } = await pair(t, { onRequest: ({ socket }) => socket.write(SWITCH) })
    const { socket } = await send(upstream, { upgrade: 'websocket' }).over
    return { socket: socket!, far: scripted.requests[0]!.socket }
  }

  it('passes on what was sent before either side ended', async (t) => {
    const far = 'f'.repeat(500_000)
    const { socket, far: upstreamSocket } = await upgraded(t)
    upstreamSocket.end(far)
    assert.equal((await socket.toArray()).join(''), far)
    await until(() => socket.destroyed)
    assert.equal(socket.errored, null)
    const other = await upgraded(t)
    let received = ''
    other.far.removeAllListeners('data').on('data', (chunk: Buffer) => {
      received += chunk.toString()
    })
    other.socket.resume().end(far)
    await until(() => received === far)
  })

  it('is paused by a slow reader', async (t) => {
    const { socket, far } = await upgraded(t)
    let sent = 0
    const pump = (): void => {
      while (sent < 64_000_000 && far.write(Buffer.alloc(65_536))) sent += 65_536
    }
    far.on('drain', pump)
    pump()
    let before = -1
    while (sent !== before) {
      before = sent
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert.ok(sent < 24_000_000, `${sent} bytes in flight`)
    socket.destroy()
    await until(() => far.destroyed)
  })

  it('is refused before the request was sent completely', async (t) => {
    const { scripted, upstream } = await pair(t, {
      onConnection: (socket) => socket.once('data', () => socket.write(SWITCH)),
    })
    const body = new Readable({ read() {} })
    body.push('half')
    const received = await send(upstream, { method: 'POST', body, upgrade: 'websocket' }).over
    assert.deepEqual([received.fault?.kind, received.socket], ['malformed', undefined])
    await until(() => scripted.open.size === 0)
  })

  it('reports a reset as an error, once', async (t) => {
    const { socket, far } = await upgraded(t)
    socket.resume()
    reset(far)
    const [error] = await once(socket, 'error')
    assert.equal(error.code, 'ECONNRESET')
  })

  it('closes when its socket has been closed already', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    const accepted = once(server, 'connection') as Promise<[Socket]>
    await once(server, 'listening')
    const socket = connect((server.address() as { port: number }).port, '127.0.0.1')
    await accepted
    const stream = new UpgradedStream(socket).resume()
    socket.destroy()
    await once(stream, 'close')
    assert.equal(stream.errored, null)
    ;(await accepted)[0].destroy()
    server.close()
  })
})
