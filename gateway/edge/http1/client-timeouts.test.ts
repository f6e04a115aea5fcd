import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { GET, serving, until } from './conformance/client.test-support.ts'
import {
  readThrough,
  respond,
  type Seen,
  scribe,
  serverOf,
  wireTo,
} from './conformance/scribe.test-support.ts'
import { turns } from './conformance/wire.test-support.ts'

const KEEP = 'Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n'
const OK = `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${KEEP}`
const REFUSED = 'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
const POST = 'POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n'
const MIB = 1024 * 1024

describe('a connection is given up, at the millisecond', () => {
  it('10 s after its beginning when nothing comes', async (t) => {
    const { seen, time, connect, swept } = await serving(t)
    const client = await connect()
    client.send('\r\n')
    await client.read()
    time.nowMs = 9999
    await swept()
    assert.equal(client.served.destroyed, false)
    time.nowMs = 10_000
    assert.deepEqual([await client.over(), seen.length], [{ text: '', reset: false }, 0])
  })

  it('with a response, 10 s after the first byte of a head, however many bytes follow', async (t) => {
    const { seen, time, connect, swept } = await serving(t)
    const client = await connect()
    await swept()
    time.nowMs = 5000
    for (const byte of 'GET / HT') {
      client.send(byte)
      await client.read()
      time.nowMs += 1249
    }
    await swept()
    assert.equal(seen.length, 0)
    time.nowMs = 15_000
    assert.equal((await client.over()).text, REFUSED)
    assert.deepEqual([seen[0]?.fault, seen[0]?.method], ['request_timeout', 'GET'])
  })

  it('30 s after the first byte of a request, when its body has not come by then', async (t) => {
    const { seen, time, connect, swept } = await serving(t)
    const client = await connect()
    client.send('P')
    await client.read()
    time.nowMs = 1000
    client.send(POST.slice(1))
    await until(() => seen.length === 1)
    time.nowMs = 29_999
    client.send('a')
    await client.read()
    await swept()
    assert.equal(seen[0]?.fault, undefined)
    time.nowMs = 30_000
    assert.equal((await client.over()).text, REFUSED)
    assert.deepEqual([seen[0]?.fault, seen[0]?.text, seen[0]?.whole], ['request_timeout', 'a', false])
  })

  it('6 s after its last response: the announced 5 s, and one more for the way', async (t) => {
    const { time, connect, swept } = await serving(t)
    const client = await connect()
    time.nowMs = 100
    client.send(GET)
    await until(() => client.text() === OK)
    time.nowMs = 6099
    await swept()
    assert.equal(client.served.destroyed, false)
    time.nowMs = 6100
    assert.deepEqual(await client.over(), { text: OK, reset: false })
  })

  it('also when an empty line came ahead', async (t) => {
    const { time, connect, swept } = await serving(t)
    const client = await connect()
    client.send(`${GET}\r\n`)
    await until(() => client.text() === OK)
    // What came ahead is taken up one turn later.
    await swept()
    time.nowMs = 6001
    await client.gone()
  })

  it('never while its response is awaited', async (t) => {
    const { seen, time, connect, swept } = await serving(t, { begun: (one) => readThrough(one, () => {}) })
    const client = await connect()
    client.send(`${POST}0123456789`)
    await until(() => seen[0]?.whole === true)
    time.nowMs = 1e9
    await swept()
    respond((seen[0] as Seen).res)
    await until(() => client.text() === OK)
  })

  it('never while the response to a request that ends the connection is awaited', async (t) => {
    const { seen, time, connect, swept } = await serving(t, { refused: () => {}, begun: () => {} })
    for (const head of ['CONNECT / HTTP/1.1\r\n\r\n', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n']) {
      const begun = seen.length
      const client = await connect()
      client.send(head)
      await until(() => seen.length === begun + 1)
      time.nowMs += 1e6
      await swept()
      respond((seen[begun] as Seen).res)
      await until(() => client.text() !== '')
    }
  })

  it('when its client takes nothing of the response for the idle time, and the client is blamed', async (t) => {
    const breaking = {
      begun: ({ res }: Seen) => res.writeHead(HEAD),
      refused: ({ res }: Seen) => res.breakOff(),
    }
    const { seen, time, connect, swept } = await serving(t, breaking)
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    await until(() => seen.length === 1)
    assert.equal((seen[0] as Seen).res.write(Buffer.alloc(16 * MIB)), false)
    await writesSettle(client.served)
    time.nowMs = 59_999
    await swept()
    assert.equal(seen[0]?.fault, undefined)
    time.nowMs = 60_000
    await client.gone()
    assert.deepEqual([seen[0]?.fault, seen[0]?.closes], ['response_timeout', 1])
  })

  it('after a shorter idle time if the response has one, but not while its client takes something now and then', async (t) => {
    const endless = ({ res }: Seen) => {
      res.idleMs = 5000
      res.writeHead(HEAD)
      const pour = () => {
        while (res.write(Buffer.alloc(64 * 1024)));
        res.onDrain(pour)
      }
      pour()
    }
    const { time, connect, swept } = await serving(t, { begun: endless })
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    for (let i = 0; i < 5; i++) {
      await writesSettle(client.served)
      const { bytesWritten } = client.served
      client.socket.resume()
      await until(() => client.served.bytesWritten > bytesWritten)
      client.socket.pause()
      await writesSettle(client.served)
      time.nowMs += 4999
      await swept()
      assert.equal(client.served.destroyed, false)
    }
    await writesSettle(client.served)
    time.nowMs += 5000
    await client.gone()
  })

  it('also when the response that its client does not take is whole', async (t) => {
    const body = 'x'.repeat(16 * MIB)
    const { seen, time, connect, swept } = await serving(t, { begun: ({ res }) => respond(res, { body }) })
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    await until(() => seen[0]?.closes === 1)
    await writesSettle(client.served)
    for (; time.nowMs < 130_000 && !client.served.destroyed; time.nowMs += 10_000) await swept()
    assert.equal(client.served.destroyed, true)
  })
})

describe('a request body', () => {
  const pace = { requestMs: Number.POSITIVE_INFINITY, bodyPace: { graceMs: 20_000, minBytesPerSecond: 100 } }
  const LONG = 'POST / HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n'

  it('of which nothing comes for 20 s is given up with 408, and not before', async (t) => {
    const { seen, time, connect, swept } = await serving(t, {}, pace)
    const client = await connect()
    client.send(LONG)
    await until(() => seen.length === 1)
    time.nowMs = 19_999
    await swept()
    assert.equal(seen[0]?.fault, undefined)
    time.nowMs = 20_000
    await client.over()
    assert.equal(seen[0]?.fault, 'request_timeout')
  })

  it('that comes at the minimum rate has unlimited time; a slower one has the grace, whatever was sent fast before', async (t) => {
    const { seen, time, connect, swept } = await serving(t, {}, pace)
    const client = await connect()
    client.send(LONG)
    await until(() => seen.length === 1)
    client.send('x'.repeat(MIB))
    await client.read()
    for (; time.nowMs < 120_000; time.nowMs += 15_000) {
      client.send('x'.repeat(1500))
      await client.read()
      await swept()
    }
    assert.equal(seen[0]?.fault, undefined)
    const slowFromMs = time.nowMs
    for (; seen[0]?.fault === undefined && time.nowMs < slowFromMs + 60_000; time.nowMs += 4000) {
      await swept()
      client.send('x')
      await client.read()
    }
    assert.equal(seen[0]?.fault, 'request_timeout')
  })

  it('that we hold back is not too slow, and has its full time again when we read on', async (t) => {
    const { seen, time, connect, swept } = await serving(t, { begun: () => {} }, pace)
    const client = await connect()
    client.send(LONG)
    client.send('x'.repeat(MIB))
    await until(() => client.served.isPaused())
    time.nowMs = 1e9
    await swept()
    const { body } = seen[0] as Seen
    assert.equal(seen[0]?.fault, undefined)
    body?.resume()
    await until(() => client.served.bytesRead === MIB + LONG.length)
    time.nowMs += 19_999
    await swept()
    assert.equal(seen[0]?.fault, undefined)
    time.nowMs += 1
    await until(() => seen[0]?.fault === 'request_timeout')
  })

  it('with a minimum rate of 0 is only ended by silence', async (t) => {
    const bodyPace = { graceMs: 20_000, minBytesPerSecond: 0 }
    const { seen, time, connect, swept } = await serving(t, {}, { ...pace, bodyPace })
    const client = await connect()
    client.send(LONG)
    for (; time.nowMs < 100_000; time.nowMs += 19_999) {
      client.send('x')
      await client.read()
      await swept()
    }
    assert.equal(seen[0]?.fault, undefined)
    time.nowMs += 1
    await until(() => seen[0]?.fault === 'request_timeout')
  })
})

/** Waits until the kernels take no more. */
async function writesSettle(socket: Socket): Promise<void> {
  for (let before = -1; socket.writableLength !== before; ) {
    before = socket.writableLength
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

const HEAD = { status: 200, lines: '', contentLength: undefined, dated: true }

describe('after a response that came early, or that is the last of its connection', () => {
  const early = { begun: ({ res }: Seen) => respond(res, { status: 413 }) }
  const TOO_MUCH =
    'HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n'
  const LARGE = `POST / HTTP/1.1\r\nContent-Length: ${100 * MIB}\r\n\r\n`

  it('a client may go on sending, and gets the whole response', async (t) => {
    const { seen, connect } = await serving(t, early)
    const client = await connect()
    client.send(LARGE)
    client.send('x'.repeat(8 * MIB))
    client.socket.end()
    assert.deepEqual(await client.over(), { text: TOO_MUCH, reset: false })
    await client.gone()
    assert.deepEqual([seen.length, seen[0]?.body?.destroyed], [1, true])
  })

  it('nothing that still comes is a request', async (t) => {
    const { seen, connect } = await serving(t)
    const client = await connect()
    client.send(`${GET.replace('\r\n', '\r\nConnection: close\r\n')}${GET}`)
    await until(() => client.socket.readableEnded)
    client.send(GET)
    await client.read()
    client.socket.end()
    await client.gone()
    assert.equal(seen.length, 1)
  })

  it('the connection is over 2 s after the last byte', async (t) => {
    const { time, connect, swept } = await serving(t, early)
    const client = await connect()
    client.send(LARGE)
    await until(() => client.socket.readableEnded)
    time.nowMs = 1999
    client.send('a')
    await client.read()
    time.nowMs = 3998
    await swept()
    assert.equal(client.served.destroyed, false)
    time.nowMs = 3999
    await client.gone()
  })

  it('the connection is over after 10 s in all, whatever comes', async (t) => {
    const { time, connect } = await serving(t, early)
    const client = await connect()
    client.send(LARGE)
    await until(() => client.socket.readableEnded)
    for (; time.nowMs < 9000; time.nowMs += 1500) {
      client.send('a')
      await client.read()
    }
    assert.equal(client.served.destroyed, false)
    client.send('a')
    await client.read()
    time.nowMs = 10_000
    await client.gone()
  })

  it('the connection is over after 64 MiB', async (t) => {
    const { connect } = await serving(t, early)
    const client = await connect()
    client.send(LARGE)
    await until(() => client.socket.readableEnded)
    client.send('x'.repeat(66 * MIB))
    await client.gone()
    assert.ok(client.served.bytesRead < 66 * MIB)
  })

  it('the connection is over also for a client that takes nothing and sends a byte now and then', async (t) => {
    const body = 'x'.repeat(16 * MIB)
    const { time, connect, swept } = await serving(
      t,
      { begun: ({ res }) => respond(res, { body }) },
      { idleMs: 20_000 },
    )
    const client = await connect()
    client.socket.pause()
    client.send(LARGE)
    await client.read()
    for (; time.nowMs < 60_000 && !client.served.destroyed; time.nowMs += 1500) {
      client.send('a')
      await swept()
    }
    assert.equal(client.served.destroyed, true)
  })
})

describe('a response in the middle of its request', () => {
  it('is the last of its connection, also when the rest of the request came in the same read', async () => {
    let nowMs = 0
    const refuse = ({ body, res }: Seen) => body?.once('data', () => respond(res, { status: 413 }))
    const http = serverOf(scribe({ begun: refuse }), () => nowMs)
    const wire = wireTo(http)
    wire.send('POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n')
    await turns()
    wire.send('1\r\na\r\n0\r\n\r\n')
    await turns()
    nowMs = 2001
    await until(() => wire.destroyed)
  })
})

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'

describe('a client that has closed its half', () => {
  it('gets the responses to all its requests', async (t) => {
    const { connect } = await serving(t)
    const client = await connect()
    client.send(`${GET}${POST}0123456789${GET}`)
    client.socket.end()
    assert.deepEqual(await client.over(), { text: OK + OK + OK, reset: false })
    await client.gone()
  })

  it('is asked now and then whether it is still there, until its response begins', async (t) => {
    const { seen, connect } = await serving(t, { begun: () => {} })
    const client = await connect()
    client.send(GET)
    client.socket.end()
    await until(() => client.text() === CONTINUE)
    await until(() => client.text() === CONTINUE + CONTINUE)
    const [{ res }] = seen as [Seen]
    res.writeHead(HEAD)
    res.flushHead()
    const beganMs = performance.now()
    await until(() => performance.now() > beganMs + 2100)
    assert.equal(client.served.destroyed, false)
    res.end()
    const { text } = await client.over()
    assert.ok(text.startsWith(`${CONTINUE}${CONTINUE}HTTP/1.1 200`) && text.endsWith('0\r\n\r\n'), text)
  })

  it('is gone when nothing of a begun response is sent to it for ten seconds', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const { seen, connect } = await serving(t, { begun: ({ res }) => void res.writeHead(HEAD) })
    const client = await connect()
    client.send(GET)
    client.socket.end()
    await until(() => seen.length === 1 && client.served.readableEnded)
    const [{ res }] = seen as [Seen]
    res.flushHead()
    await until(() => client.text() !== '')
    t.mock.timers.tick(9500)
    res.write(Buffer.from('a'))
    await until(() => client.text().endsWith('a\r\n'))
    t.mock.timers.tick(10_000)
    assert.equal(client.served.destroyed, false)
    t.mock.timers.tick(500)
    await client.gone()
    assert.equal(seen[0]?.closes, 1)
  })

  it('of HTTP/1.0, which knows no interim response, is not asked', async (t) => {
    const { seen, connect } = await serving(t, { begun: () => {} })
    const client = await connect()
    client.send('GET / HTTP/1.0\r\n\r\n')
    client.socket.end()
    await until(() => seen.length === 1 && client.served.readableEnded)
    const endedMs = performance.now()
    await until(() => performance.now() > endedMs + 600)
    respond((seen[0] as Seen).res)
    assert.match((await client.over()).text, /^HTTP\/1\.1 200/)
  })

  it('is gone, and its request with it, when it replies to the question with a reset', async (t) => {
    const { seen, connect } = await serving(t, { begun: () => {} })
    const client = await connect()
    client.send(GET)
    client.socket.destroySoon()
    await client.gone()
    assert.deepEqual(
      seen.map(({ closes }) => closes),
      [1],
    )
  })

  it('is not given up as long as it has not read what was written for it', async (t) => {
    const body = 'x'.repeat(16 * MIB)
    const { seen, connect } = await serving(t, { begun: ({ res }) => respond(res, { body }) })
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    client.socket.end()
    await until(() => seen.length === 1 && client.served.readableEnded)
    const endMs = performance.now() + 700
    await until(() => performance.now() > endMs)
    assert.equal(client.served.destroyed, false)
    client.socket.resume()
    assert.ok((await client.over()).text.endsWith(body))
  })

  it('in the middle of a head has sent no request, and is gone', async (t) => {
    const { seen, connect } = await serving(t)
    const client = await connect()
    client.send('GET / HTTP/1.1\r\nHos')
    client.socket.end()
    await client.gone()
    assert.deepEqual(
      seen.map(({ fault, closes }) => [fault, closes]),
      [['malformed_request', 1]],
    )
    assert.equal(client.text(), '')
  })

  for (const [half, fault] of [
    ['GET / HTTP/1.1\r\nHos', 'malformed_request'],
    [`${POST}012`, undefined],
  ] as const) {
    it(`gets its response, and is gone with the ${half.length} bytes of the next request`, async (t) => {
      const { seen, connect } = await serving(t, { begun: () => {} })
      const client = await connect()
      client.send(GET + half)
      client.socket.end()
      await until(() => seen.length === 1 && client.served.readableEnded)
      respond((seen[0] as Seen).res)
      await client.gone()
      assert.equal(client.text(), OK)
      assert.deepEqual(
        seen.map((one) => [one.fault, one.whole, one.closes]),
        [
          [undefined, false, 1],
          [fault, false, 1],
        ],
      )
    })
  }

  it('in the middle of a body is gone, and its request with it', async (t) => {
    const { seen, connect } = await serving(t)
    const client = await connect()
    client.send(`${POST}012`)
    client.socket.end()
    await client.gone()
    const [one] = seen as [Seen]
    assert.deepEqual([one.text, one.whole, one.closes, one.body?.destroyed], ['012', false, 1, true])
  })

  it('without a request is closed', async (t) => {
    const { seen, connect } = await serving(t)
    const client = await connect()
    client.socket.end()
    assert.deepEqual(await client.over(), { text: '', reset: false })
    assert.equal(seen.length, 0)
  })
})
