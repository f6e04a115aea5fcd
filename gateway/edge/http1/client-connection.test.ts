import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import type { RequestHeaders } from '../rules/request-headers.ts'
import { type Client, GET, serving, until } from './conformance/client.test-support.ts'
import {
  readThrough,
  respond,
  respondEmpty,
  type Seen,
  scribe,
  serverOf,
  wireTo,
} from './conformance/scribe.test-support.ts'
import { turns, Wire } from './conformance/wire.test-support.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n'
const KIB = 1024
const MIB = KIB * KIB
/** More than is read of a client that is held back: one read, what waits ahead, and what fills the socket's stream. */
const BOUND_BYTES = 256 * KIB
const CLOSING = [
  'GET / HTTP/1.1\r\nConnection: close\r\n\r\n',
  'GET / HTTP/1.0\r\n\r\n',
  'GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n\r\n',
] as const

const noResponse = { begun: () => {} }
const endings = (seen: readonly Seen[]) => seen.map(({ closes }) => closes)

describe('requests on one connection', () => {
  it('begin one after the other, each when the response before it is whole', async (t) => {
    const { seen, connect } = await serving(t, noResponse)
    const client = await connect()
    client.send(['/a', '/b', '/c'].map((target) => `GET ${target} HTTP/1.1\r\n\r\n`).join(''))
    await client.read()
    for (const [i, target] of ['/a', '/b', '/c'].entries()) {
      await until(() => seen.length === i + 1)
      const { res } = seen[i] as Seen
      res.writeHead({ status: 200, lines: 'Content-Length: 2\r\n', contentLength: 2, dated: true })
      res.write(Buffer.from(target.slice(0, 1)))
      await turns()
      assert.equal(seen.length, i + 1)
      res.write(Buffer.from(target.slice(1)))
      res.end()
    }
    await until(() => client.text().endsWith('/c'))
    assert.deepEqual(client.text().match(/\/[abc]$|\/[abc](?=HTTP)/g), ['/a', '/b', '/c'])
    assert.deepEqual(endings(seen), [1, 1, 1])
  })

  it('are each read as they were sent, however often a head or a part of it came before', async () => {
    const method = fc.constantFrom('GET', 'HEAD', 'PURGE')
    const target = fc.constantFrom('/a', '/b', `/${'long'.repeat(KIB)}`)
    const fields = fc.subarray(['X-A: 1', 'X-B: 2', 'X-A: 3', `X-C: ${'x'.repeat(2 * KIB)}`])
    const heads = fc.array(fc.tuple(method, target, fields), { minLength: 2, maxLength: 3 })
    const order = fc.array(fc.tuple(fc.nat(2), fc.integer({ min: 1, max: 4 })), { maxLength: 8 })
    const someCuts = fc.array(fc.nat(8 * KIB), { maxLength: 4 })
    const law = fc.asyncProperty(heads, order, someCuts, async (pool, runs, cuts) => {
      const sent = runs.flatMap(([at, times]) => Array(times).fill(pool[at % pool.length]) as typeof pool)
      const text = sent
        .map(([verb, path, lines]) => `${[`${verb} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`)
        .join('')
      const handler = scribe()
      const { seen } = handler
      const wire = wireTo(serverOf(handler))
      const ends = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length].sort((a, b) => a - b)
      for (const [i, end] of ends.entries()) {
        wire.send(text.slice(ends[i - 1] ?? 0, end))
        await turns()
      }
      await until(() => seen.length >= sent.length)
      assert.deepEqual(
        seen.map((one) => [one.method, one.target, one.headers]),
        sent.map(([verb, path, lines]) => [verb, path, lines.flatMap((line) => line.split(': '))]),
      )
    })
    await fc.assert(law)
  })

  it('tell when the first byte of their body, or their end, has come', async () => {
    const begun: string[] = []
    const handler = scribe(noResponse)
    const wire = () =>
      wireTo(
        serverOf({
          ...handler,
          begin: (received, fault) => {
            received.req.whenBegun(() => begun.push(received.req.target))
            return handler.begin(received, fault)
          },
        }),
      )
    for (const [target, first, more] of [
      ['/body', '2', '\r\na'],
      ['/end', '0\r\n', '\r\n'],
    ] as const) {
      const client = wire()
      client.send(`POST ${target} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${first}`)
      await turns()
      assert.equal(begun.includes(target), false)
      client.send(more)
      await turns()
      assert.equal(begun.includes(target), true)
    }
  })

  it('may be thousands that get a response at once', async (t) => {
    const { seen, connect } = await serving(t)
    const client = await connect()
    client.send(`${GET}\r\n`.repeat(5000))
    await until(() => client.text().length === OK.length * 5000)
    assert.equal(seen.length, 5000)
  })

  it('wait in the kernel when more than 64 KiB come ahead, and none is lost', async (t) => {
    const { seen, connect } = await serving(t, {
      begun: (one) => {
        if (seen.length > 1) respondEmpty(one)
      },
    })
    const client = await connect()
    const padded = `GET / HTTP/1.1\r\nX: ${'x'.repeat(KIB)}\r\n\r\n`
    client.send(GET + padded.repeat(4000))
    await until(() => client.served.isPaused())
    await turns()
    assert.ok(client.served.bytesRead < BOUND_BYTES, `${client.served.bytesRead}`)
    assert.equal(seen.length, 1)
    respondEmpty(seen[0] as Seen)
    await until(() => seen.length === 4001)
    await until(() => client.text().length === OK.length * 4001)
  })

  it('wait in the kernel when more than a hundred come ahead, and none is lost', async (t) => {
    const { seen, connect } = await serving(t, {
      begun: (one) => {
        if (seen.length > 1) respondEmpty(one)
      },
    })
    const client = await connect()
    client.send(GET + GET.repeat(100))
    await client.read()
    assert.equal(client.served.isPaused(), false)
    client.send(GET)
    await client.read()
    assert.equal(client.served.isPaused(), true)
    respondEmpty(seen[0] as Seen)
    await until(() => client.text().length === OK.length * 102)
    client.send(GET)
    await until(() => client.text().length === OK.length * 103)
    assert.equal(seen.length, 103)
  })

  it('are not begun when their client has gone, and only their number is reported', async (t) => {
    const { seen, left, connect } = await serving(t, noResponse)
    const client = await connect()
    client.send(GET.repeat(3000))
    await client.read()
    await until(() => seen.length === 1)
    client.socket.resetAndDestroy()
    await client.gone()
    assert.deepEqual([seen.length, left], [1, [2999]])
  })

  it('are not begun while the responses before them are not taken', async (t) => {
    const { seen, connect } = await serving(t, {
      begun: ({ res }) => respond(res, { body: 'x'.repeat(16 * MIB) }),
    })
    const client = await connect()
    client.socket.pause()
    client.send(GET + GET)
    await client.read()
    await turns()
    assert.deepEqual([seen.length, seen[0]?.closes], [1, 1])
    client.socket.resume()
    await until(() => seen.length === 2)
  })
})

describe('back-pressure', () => {
  it('holds back a body that is not read, and all of it comes in the end', async (t) => {
    const { seen, connect } = await serving(t, noResponse)
    const client = await connect()
    const body = Buffer.alloc(8 * MIB, '0123456789').toString('latin1')
    client.send(`POST / HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n${body}${GET}`)
    await until(() => seen.length === 1 && client.served.isPaused())
    await turns()
    assert.ok(client.served.bytesRead < BOUND_BYTES, `${client.served.bytesRead}`)
    const [one] = seen as [Seen]
    readThrough(one, () => respondEmpty(one))
    await until(() => seen.length === 2)
    assert.ok(one.text === body, 'byte for byte')
  })

  it('notices when a client goes while its body is held back', async (t) => {
    const { seen, connect } = await serving(t, noResponse)
    const client = await connect()
    client.send(`POST / HTTP/1.1\r\nContent-Length: ${MIB}\r\n\r\n${'x'.repeat(80 * KIB)}`)
    await until(() => seen.length === 1 && client.served.isPaused())
    client.socket.resetAndDestroy()
    await client.gone()
    assert.equal(seen[0]?.closes, 1)
  })

  it('does not hold back what follows a body that is whole, and that nobody reads', async (t) => {
    const { seen, connect } = await serving(t, noResponse)
    const client = await connect()
    client.send(`POST / HTTP/1.1\r\nContent-Length: ${70 * KIB}\r\n\r\n${'x'.repeat(70 * KIB)}`)
    await client.read()
    respondEmpty(seen[0] as Seen)
    client.send(GET)
    await until(() => seen.length === 2)
  })

  it('tells the handler to wait until the client has taken something', async (t) => {
    const { seen, connect } = await serving(t, noResponse)
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    await until(() => seen.length === 1)
    const { res } = seen[0] as Seen
    res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
    assert.equal(res.write(Buffer.from('a')), true)
    assert.equal(res.write(Buffer.alloc(16 * MIB)), false)
    let drained = 0
    res.onDrain(() => {
      drained += 1
    })
    await turns()
    assert.equal(drained, 0)
    client.socket.resume()
    await until(() => drained === 1)
    res.end()
    await until(() => client.text().endsWith('0\r\n\r\n'))
    assert.ok(client.text().length > 16 * MIB)
  })
})

const POST = 'POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n'
const begin = ({ res }: Seen) => {
  res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
  res.write(Buffer.from('a'))
}

/** Where a connection may be when it ends, how many requests have begun by then, and how many never begin. */
const PHASES: readonly (readonly [string, string, (seen: Seen) => void, number, number])[] = [
  ['before anything', '', () => {}, 0, 0],
  ['between requests', GET, respondEmpty, 1, 0],
  ['in a head', 'GET / HT', () => {}, 0, 0],
  ['in a body', `${POST}012`, (seen) => readThrough(seen, () => {}), 1, 0],
  ['in a body that nobody reads', `${POST}012`, () => {}, 1, 0],
  ['in a chunk', 'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab', () => {}, 1, 0],
  ['while its response is awaited', `${POST}0123456789`, () => {}, 1, 0],
  ['in a response', GET, begin, 1, 0],
  ['with requests ahead', GET + GET + GET, () => {}, 1, 2],
  ['with half a request ahead', `${GET}${POST}01`, () => {}, 1, 1],
  ['with something ahead that is no request', `${GET}${GET}NO\r\n\r\n`, () => {}, 1, 2],
  ['after what is no request and gets no response', 'NO\r\n\r\n', () => {}, 1, 0],
  ['lingering', `${POST}012`, respondEmpty, 1, 0],
  ['before a response that is held', GET, ({ res }) => res.hold(), 1, 0],
]

describe('a connection that ends in the middle', () => {
  for (const [where, text, act, begun, abandoned] of PHASES) {
    const ends: readonly (readonly [string, (client: Client, close: () => void) => void])[] = [
      ['its client resets it', ({ socket }) => socket.resetAndDestroy()],
      ['the server ends it', (_client, close) => close()],
    ]
    for (const [how, end] of ends) {
      it(`closes every request once: ${where}, ${how}`, async (t) => {
        const { seen, left, http, connect } = await serving(t, { begun: act, refused: act })
        const client = await connect()
        client.send(text)
        await client.read()
        await until(() => seen.length >= begun)
        end(client, http.closeAllConnections)
        await client.gone()
        assert.deepEqual(endings(seen), Array(begun).fill(1))
        assert.deepEqual(left, abandoned === 0 ? [] : [abandoned])
        for (const { body } of seen) assert.ok(body === null || body.destroyed || body.readableEnded)
        for (const one of seen) act(one)
        assert.deepEqual(endings(seen), Array(begun).fill(1))
      })
    }
  }

  it('is broken off so that its client sees that something is missing', async (t) => {
    const { seen, connect } = await serving(t, { begun: begin })
    const client = await connect()
    client.send(GET)
    await until(() => client.text().endsWith('1\r\na\r\n'))
    ;(seen[0] as Seen).res.breakOff()
    await until(() => client.socket.closed)
    assert.deepEqual([(await client.over()).reset, seen[0]?.closes], [true, 1])
  })

  for (const last of CLOSING) {
    const what = last.split('\r\n').slice(0, 2).join(' ')
    for (const [before, title] of [
      ['', 'nothing that follows the last request is begun'],
      [GET, 'the last request itself is not begun when it came ahead'],
    ] as const)
      it(`${title}, and the client goes: ${what}`, async (t) => {
        const { seen, connect } = await serving(t, noResponse)
        const client = await connect()
        client.send(before + last + GET)
        await client.read()
        await until(() => seen.length === 1)
        client.socket.resetAndDestroy()
        await client.gone()
        assert.equal(seen.length, 1)
      })
  }
})

describe('a connection that is idle', () => {
  it('keeps the fields of a head only if the parser keeps them all for the next head', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as NodeJS.GCFunction
    const longer = `X-Long: ${'x'.repeat(2048)}\r\n`
    const heads: [fields: string, isKept: boolean][] = [
      ['X-A: 1\r\n'.repeat(32), true],
      ['X-A: 1\r\n'.repeat(33), false],
      [longer, false],
    ]
    for (const [fields, isKept] of heads) {
      const handler = scribe()
      let read: WeakRef<RequestHeaders> | undefined
      const begin: typeof handler.begin = (received, fault) => {
        read = new WeakRef(received.req.headers)
        return handler.begin(received, fault)
      }
      const wire = wireTo(serverOf({ ...handler, begin }))
      wire.send(`GET / HTTP/1.1\r\n${fields}\r\n`)
      await turns()
      handler.seen.length = 0
      await turns()
      collect()
      assert.equal(wire.destroyed, false)
      assert.equal(read?.deref() !== undefined, isKept, `${fields.length} bytes of fields`)
    }
  })
})

describe('when idle connections are closed,', () => {
  for (const [where, text, act, begun] of PHASES.filter(([where]) => where !== 'lingering')) {
    const isIdle = where === 'before anything' || where === 'between requests'
    it(`one ${where} is ${isIdle ? 'closed' : 'left alone'}`, async (t) => {
      const { seen, http, connect } = await serving(t, { begun: act, refused: act })
      const client = await connect()
      client.send(text)
      await client.read()
      await until(() => seen.length >= begun)
      await turns()
      http.closeIdleConnections()
      assert.equal(client.served.destroyed, isIdle)
    })
  }

  it('one that still has to send the end of a short response is left alone', async () => {
    const handler = scribe()
    const http = serverOf(handler)
    const wire = wireTo(http)
    wire.stall(true)
    wire.send(GET)
    await turns()
    http.closeIdleConnections()
    assert.deepEqual([handler.seen[0]?.closes, wire.destroyed], [1, false])
    wire.stall(false)
    await turns()
    http.closeIdleConnections()
    assert.equal(wire.destroyed, true)
  })

  it('one whose client has not yet taken a long response is left alone', async (t) => {
    const { http, connect } = await serving(t, {
      begun: ({ res }) => respond(res, { body: 'x'.repeat(16 * MIB) }),
    })
    const client = await connect()
    client.socket.pause()
    client.send(GET)
    await client.read()
    await turns()
    http.closeIdleConnections()
    assert.equal(client.served.destroyed, false)
    client.socket.resume()
    await until(() => client.text().length > 16 * MIB)
  })
})

describe('a connection that was reset before it could be accepted', () => {
  it('is not read, because the system no longer tells whose it is', async () => {
    const handler = scribe()
    const { server } = serverOf(handler)
    const wire = Object.assign(new Wire(), { remoteAddress: undefined })
    wire.send(GET)
    server.emit('connection', wire)
    await turns()
    assert.deepEqual([handler.seen.length, wire.destroyed], [0, true])
  })
})

describe('connections beyond their number', () => {
  it('take the place of the connection that has been idle for longest, and of no busy one', async () => {
    let nowMs = 0
    const held: Seen[] = []
    const handler = scribe({ begun: (seen) => held.push(seen) })
    const http = serverOf(handler, () => nowMs, { headersMs: 1000 }, 3)
    const open = (text: string) => {
      nowMs += 1
      const wire = wireTo(http)
      if (text !== '') wire.send(text)
      return wire
    }
    const busy = open(GET)
    const responded = open(GET)
    await turns()
    for (const { res } of held.splice(1)) respond(res)
    const silent = open('')
    await turns()
    // The silent connection times out sooner than one that has asked before.
    const fourth = open(GET)
    await turns()
    assert.deepEqual(
      [busy, responded, silent, fourth].map(({ destroyed }) => destroyed),
      [false, false, true, false],
    )
    const fifth = open(GET)
    await turns()
    assert.deepEqual(
      [busy, responded, fourth, fifth].map(({ destroyed }) => destroyed),
      [false, true, false, false],
    )
    const sixth = open(GET)
    await turns()
    assert.deepEqual(
      [busy, fourth, fifth, sixth].map(({ destroyed }) => destroyed),
      [false, false, false, true],
    )
    assert.equal(handler.seen.length, 4)
  })
})

describe('a body of one-byte chunks', () => {
  it('is one piece for each read, and whole however many there are', async () => {
    const pieces: number[] = []
    let ended = false
    const handler = scribe({
      begun: (seen) => {
        seen.body
          ?.on('data', (piece: Buffer) => pieces.push(piece.length))
          .on('end', () => {
            ended = true
          })
      },
    })
    const wire = wireTo(serverOf(handler))
    wire.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n')
    await turns()
    for (let read = 0; read < 50; read++) {
      wire.send('1\r\nx\r\n'.repeat(10_000))
      await turns()
    }
    wire.send('0\r\n\r\n')
    await turns()
    assert.equal(ended, true)
    assert.deepEqual(
      pieces,
      Array.from({ length: 50 }, () => 10_000),
    )
  })
})
