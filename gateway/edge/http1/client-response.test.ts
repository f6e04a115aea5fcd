import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { type BodyReceiver, boundLargeBuffers, ReadBuffer } from '../bodies/read-buffers.ts'
import { type Client, GET, type Serving, serving, until } from './conformance/client.test-support.ts'
import { type GivenResponse, respond, type Seen } from './conformance/scribe.test-support.ts'
import type { OutgoingResponse } from './handler.ts'

const KEEP = 'Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n'
const CLOSE = 'Connection: close\r\n\r\n'
const OK = `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${KEEP}`
const UPGRADE =
  'GET /chat HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n'
const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\n\r\n'

const LENGTH = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n'
const GET_10 = 'GET / HTTP/1.0\r\n\r\n'
const KEEP_10 = 'GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n'
const unbounded = { body: 'hello', bounded: false }

/** What is asked, the response, and how that looks on the wire. */
const CASES: readonly (readonly [string, GivenResponse, string])[] = [
  [GET, { body: 'hello' }, `${LENGTH}${KEEP}hello`],
  [GET, unbounded, `${CHUNKED}${KEEP}5\r\nhello\r\n0\r\n\r\n`],
  [GET, { bounded: false }, `${CHUNKED}${KEEP}0\r\n\r\n`],
  [GET, {}, OK],
  [GET_10, { body: 'hello' }, `${LENGTH}${CLOSE}hello`],
  [GET_10, unbounded, `HTTP/1.1 200 OK\r\n${CLOSE}hello`],
  [KEEP_10, { body: 'hello' }, `${LENGTH}${KEEP}hello`],
  [KEEP_10, unbounded, `HTTP/1.1 200 OK\r\n${CLOSE}hello`],
  ['GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n', { body: 'hello' }, `${LENGTH}${CLOSE}hello`],
  ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n', unbounded, `${CHUNKED}${CLOSE}5\r\nhello\r\n0\r\n\r\n`],
  ['GET / HTTP/1.1\r\nConnection: keep-alive, close\r\n\r\n', {}, OK.replace(KEEP, CLOSE)],
  [UPGRADE, { body: 'hello' }, `${LENGTH}${CLOSE}hello`],
  ['HEAD / HTTP/1.1\r\n\r\n', { body: 'hello' }, `${LENGTH}${KEEP}`],
  ['HEAD / HTTP/1.1\r\n\r\n', unbounded, `HTTP/1.1 200 OK\r\n${KEEP}`],
  ['HEAD / HTTP/1.0\r\n\r\n', unbounded, `HTTP/1.1 200 OK\r\n${CLOSE}`],
  [GET, { status: 204, bounded: false }, `HTTP/1.1 204 No Content\r\n${KEEP}`],
  [GET, { status: 304, ...unbounded }, `HTTP/1.1 304 Not Modified\r\n${KEEP}`],
  [KEEP_10, { status: 304, ...unbounded }, `HTTP/1.1 304 Not Modified\r\n${KEEP}`],
  [GET, { status: 299, body: '\xff\0' }, `HTTP/1.1 299 unknown\r\nContent-Length: 2\r\n${KEEP}\xff\0`],
]

describe('a response goes out, byte for byte,', () => {
  for (const [asked, responded, expected] of CASES) {
    it(`${JSON.stringify(expected)}, to ${JSON.stringify(asked.slice(0, 60))}`, async (t) => {
      const { connect } = await serving(t, { begun: ({ res }) => respond(res, responded) })
      const client = await connect()
      client.send(asked)
      await until(() => client.text().length >= expected.length)
      if (!expected.includes(KEEP)) await until(() => client.socket.readableEnded)
      // Anything else would come before the end.
      client.socket.end()
      assert.equal((await client.over()).text, expected)
    })
  }

  it('with the date, unless its lines have one', async (t) => {
    const begun = ({ res }: Seen) => {
      res.writeHead({ status: 200, lines: 'Content-Length: 0\r\n', contentLength: 0, dated: false })
      res.end()
    }
    const text = await textOf(t, begun)
    assert.equal(text, OK.replace(KEEP, `Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n${KEEP}`))
  })

  it('with its head first, if that is flushed, then a chunk for each piece, however long, but none for an empty piece', async (t) => {
    const long = 'x'.repeat(20_000)
    const text = await textOf(t, ({ res }) => {
      res.writeInterim(103, 'Link: </a>\r\n')
      res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
      res.flushHead()
      for (const piece of [long, '', 'a', '\xff']) res.write(Buffer.from(piece, 'latin1'))
      res.end()
    })
    const interim = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
    assert.equal(text, `${interim}${CHUNKED}${KEEP}4e20\r\n${long}\r\n1\r\na\r\n1\r\n\xff\r\n0\r\n\r\n`)
  })

  it('whole, when its first piece is too long to go with its head', async (t) => {
    const body = 'x'.repeat(20_000)
    const text = await textOf(t, ({ res }) => respond(res, { body }))
    assert.equal(text, `HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n${KEEP}${body}`)
  })
})

/** The response to one request, after which the client ends. */
async function textOf(t: TestContext, begun: (seen: Seen) => void): Promise<string> {
  const { connect } = await serving(t, { begun })
  const client = await connect()
  client.send(GET)
  client.socket.end()
  return (await client.over()).text
}

/** Sends requests to which the test itself responds. */
async function asking(
  t: TestContext,
  text: string,
): Promise<{ client: Client; first: Seen; serving: Serving }> {
  const running = await serving(t, { begun: () => {} })
  const client = await running.connect()
  client.send(text)
  await client.read()
  await until(() => running.seen.length > 0)
  return { client, first: running.seen[0] as Seen, serving: running }
}

describe('a response that is held', () => {
  it('goes out when it is released, and only then is the next request begun', async (t) => {
    const { client, first, serving } = await asking(t, GET + GET)
    const release = first.res.hold()
    respond(first.res, { body: 'hello' })
    // A second connection shows that the loop has turned.
    const other = await serving.connect()
    other.send(GET)
    await until(() => serving.seen.length === 2)
    assert.deepEqual([client.text(), first.closes], ['', 0])
    release()
    await until(() => serving.seen.length === 3)
    await until(() => client.text() === `${LENGTH}${KEEP}hello`)
    assert.equal(first.closes, 1)
  })

  it('may be released before it ends', async (t) => {
    const { client, first } = await asking(t, GET)
    const release = first.res.hold()
    first.res.writeHead({ status: 200, lines: 'Content-Length: 5\r\n', contentLength: 5, dated: true })
    first.res.write(Buffer.from('he'))
    release()
    await until(() => client.text() === `${LENGTH}${KEEP}he`)
    first.res.write(Buffer.from('llo'))
    first.res.end()
    await until(() => client.text() === `${LENGTH}${KEEP}hello`)
  })

  it('is closed once when its client goes, and its release does nothing more', async (t) => {
    const { client, first, serving } = await asking(t, GET + GET)
    const release = first.res.hold()
    respond(first.res, { body: 'hello' })
    client.socket.resetAndDestroy()
    await client.gone()
    assert.equal(first.closes, 1)
    release()
    assert.deepEqual([first.closes, serving.seen.map(({ closes }) => closes)], [1, [1]])
  })

  it('lets go of the buffers of its pieces when it is broken off', async (t) => {
    boundLargeBuffers(1)
    t.after(() => boundLargeBuffers(32))
    const { client, first } = await asking(t, GET)
    const piece = 20 * 1024
    const reading = new ReadBuffer('upstreams')
    const read = (bytes: number, to: BodyReceiver) =>
      reading.pass({ bytes: reading.next(), from: 0, to: bytes }, to, 0)
    const { res } = first
    const receiver: BodyReceiver = {
      data: (bytes) => res.write(bytes),
      get isHolding() {
        return res.isHolding
      },
    }
    const taker: BodyReceiver = { data: () => true, isHolding: false }
    for (let i = 0; i < 3; i++) read(64 * 1024, taker)
    res.writeHead({ status: 200, lines: '', contentLength: piece, dated: true })
    res.hold()
    read(piece, receiver)
    res.end()
    const { bytes: lent } = reading
    assert.equal(lent.length, 256 * 1024)
    reading.release()
    assert.equal(res.isHolding, true)
    res.breakOff()
    await client.gone()
    await until(() => first.closes === 1)
    assert.equal(res.isHolding, false)
    for (let i = 0; i < 3; i++) read(64 * 1024, taker)
    assert.ok(reading.bytes === lent)
    reading.release()
  })
})

/** @returns the arguments of the callback, once it was called */
function switching(res: OutgoingResponse): (Socket | undefined)[] {
  const sockets: (Socket | undefined)[] = []
  res.switch(SWITCHING, (socket) => sockets.push(socket))
  return sockets
}

describe('the switch to another protocol', () => {
  it('hands over the socket with the bytes that came early, and the connection is detached', async (t) => {
    const { client, first, serving } = await asking(t, `${UPGRADE}early\r\n\r\n`)
    assert.equal(first.upgrade, 'websocket')
    const [socket] = switching(first.res) as [Socket]
    let text = ''
    socket.on('data', (piece: Buffer) => {
      text += piece.toString('latin1')
    })
    socket.resume()
    client.send(GET)
    await until(() => text === `early\r\n\r\n${GET}`)
    serving.http.closeAllConnections()
    serving.http.closeIdleConnections()
    socket.end('bye')
    assert.equal((await client.over()).text, `${SWITCHING}bye`)
    assert.deepEqual([serving.seen.length, first.closes, socket.destroyed], [1, 1, false])
    socket.destroy()
  })

  for (const [what, interim] of [
    ['waits while it is held, and what the new protocol says goes behind it', ''],
    ['goes out after the interim response before it, when both are held', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ] as const) {
    it(what, async (t) => {
      const { client, first, serving } = await asking(t, UPGRADE)
      const release = first.res.hold()
      if (interim !== '') first.res.writeInterim(103, '')
      const sockets = switching(first.res)
      const other = await serving.connect()
      other.send(GET)
      await until(() => serving.seen.length === 2)
      assert.deepEqual([client.text(), sockets], ['', []])
      release()
      const [socket] = sockets as [Socket]
      socket.end('hello')
      assert.equal((await client.over()).text, `${interim}${SWITCHING}hello`)
      socket.destroy()
    })
  }

  it('ends the connection when it is broken off while it is held, and its client sees nothing of the switch', async (t) => {
    const { client, first } = await asking(t, UPGRADE)
    first.res.hold()
    const sockets = switching(first.res)
    first.res.breakOff()
    assert.equal(client.served.destroyed, true)
    await client.gone()
    assert.deepEqual([client.text(), sockets], ['', [undefined]])
  })

  it('cannot be broken off once it has been released', async (t) => {
    const { client, first } = await asking(t, UPGRADE)
    const release = first.res.hold()
    const sockets = switching(first.res)
    release()
    first.res.breakOff()
    const [socket] = sockets as [Socket]
    socket.end()
    assert.equal((await client.over()).text, SWITCHING)
    socket.destroy()
  })

  it('is not offered to a pipelined request', async (t) => {
    const { first, serving } = await asking(t, GET + UPGRADE)
    respond(first.res)
    await until(() => serving.seen.length === 2)
    assert.deepEqual(
      serving.seen.map(({ upgrade }) => upgrade),
      [undefined, undefined],
    )
  })
})

it('a head that has not been sent can be replaced by a head with another framing', async (t) => {
  const { client, first } = await asking(t, GET)
  first.res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
  assert.equal(first.res.headersSent, false)
  respond(first.res, { status: 502, body: 'broken' })
  assert.equal(first.res.headersSent, true)
  await until(() => client.text().endsWith('broken'))
  assert.match(client.text(), /^HTTP\/1\.1 502 Bad Gateway\r\nContent-Length: 6\r\n/)
  assert.doesNotMatch(client.text(), /chunked/i)
})

describe('a response that has ended does not reach the next one, with', () => {
  for (const [what, late] of [
    ['a piece of its body', ({ res }: Seen) => res.write(Buffer.from('late'))],
    ['its head', ({ res }: Seen) => res.flushHead()],
    [
      'another head',
      ({ res }: Seen) => {
        res.writeHead({ status: 200, lines: '', contentLength: 0, dated: true })
        res.flushHead()
      },
    ],
    ['an interim response', ({ res }: Seen) => res.writeInterim(103, '')],
    ['its end', ({ res }: Seen) => res.end()],
    ['its breaking off', ({ res }: Seen) => res.breakOff()],
    ['its being held', ({ res }: Seen) => res.hold()],
    ['another whole response', ({ res }: Seen) => respond(res, { body: 'late' })],
  ] as const) {
    it(what, async (t) => {
      const { client, first, serving } = await asking(t, GET + GET)
      respond(first.res)
      late(first)
      await until(() => serving.seen.length === 2)
      late(first)
      respond((serving.seen[1] as Seen).res)
      await until(() => client.text().length >= OK.length * 2 || client.socket.closed)
      assert.equal(client.text(), OK + OK)
    })
  }
})
