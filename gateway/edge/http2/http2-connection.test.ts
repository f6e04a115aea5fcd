import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { until } from '../http1/conformance/client.test-support.ts'
import { respond, type Seen, scribe, serverOf, wireTo } from '../http1/conformance/scribe.test-support.ts'
import type { ParkedConnection } from '../http1/connections.ts'
import {
  blockOf,
  type Fields,
  FrameClient,
  frameOf,
  GET,
  numbers,
  POST,
  serveFrames,
} from './frame-client.test-support.ts'
import {
  CANCEL,
  DATA,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  FLOW_CONTROL_ERROR,
  GOAWAY,
  HEADERS,
  NO_ERROR,
  PROTOCOL_ERROR,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from './frames.ts'

const OK = [':status: 200', 'content-length: 0']

describe('a stream of HTTP/2', () => {
  it('is a request in the form of HTTP/1.1, with its response', async () => {
    const { seen, connect } = serveFrames()
    const client = connect()
    client.request(1, [...GET, ['cookie', 'a=1'], ['x-a', 'b'], ['cookie', 'c=2'], ['te', 'trailers']])
    assert.equal(await client.status(1), ':status: 200')
    const { method, target, version, headers, fault } = seen[0] as Seen
    assert.deepEqual(
      { method, target, version, headers, fault },
      {
        method: 'GET',
        target: '/',
        version: '2',
        headers: ['host', 'gateway', 'x-a', 'b', 'te', 'trailers', 'cookie', 'a=1; c=2'],
        fault: undefined,
      },
    )
    assert.deepEqual(client.heads(1), [OK])
    assert.equal(client.of(HEADERS, 1)[0]?.flags, END_STREAM | END_HEADERS)
    assert.deepEqual(client.of(RST_STREAM, 1), [])
  })

  it('has a body, whose trailers are dropped', async () => {
    const begun = (one: Seen) => {
      one.body?.on('data', (piece: Buffer) => {
        one.text += piece
      })
      one.body?.once('end', () => respond(one.res, { body: `got ${one.text}`, bounded: false }))
    }
    const { seen, connect } = serveFrames({ begun })
    const client = connect()
    client.request(1, POST, 0)
    client.frame(DATA, 0, 1, 'hel')
    client.frame(DATA, 8, 1, '\x02lo\0\0')
    client.request(1, [['x-sum', '1']])
    await until(() => client.of(DATA, 1).length > 0)
    assert.deepEqual(seen[0]?.headers, ['host', 'gateway'])
    assert.equal(client.of(DATA, 1)[0]?.payload.toString(), 'got hello')
    await until(() => client.of(DATA, 1).at(-1)?.flags === END_STREAM)
  })

  const MALFORMED: Readonly<Record<string, Fields>> = {
    'no method': GET.slice(1),
    'a method that is no token': [[':method', 'BR EW'], ...GET.slice(1)],
    'an empty method': [[':method', ''], ...GET.slice(1)],
    'the scheme of another listener': [...GET.slice(0, 1), [':scheme', 'https'], ...GET.slice(2)],
    'no scheme': [...GET.slice(0, 1), ...GET.slice(2)],
    'no path': [...GET.slice(0, 2), ...GET.slice(3)],
    'an absolute target': [...GET.slice(0, 2), [':path', 'http://a/'], ...GET.slice(3)],
    'white space in the path': [...GET.slice(0, 2), [':path', '/a b'], ...GET.slice(3)],
    'a repeated pseudo-field': [...GET, [':path', '/']],
    'a pseudo-field after another field': [...GET.slice(0, 3), ['x-a', 'b'], ...GET.slice(3)],
    'a pseudo-field of responses': [...GET, [':status', '200']],
    'a protocol without CONNECT': [...GET, [':protocol', 'websocket']],
    'capitals in a name': [...GET, ['X-A', 'b']],
    'a name that is no token': [...GET, ['x a', 'b']],
    'no name': [...GET, ['', 'b']],
    'a line feed in a value': [...GET, ['x-a', 'b\r\nx-b: c']],
    'NUL in a value': [...GET, ['x-a', '\0']],
    'white space around a value': [...GET, ['x-a', ' b']],
    connection: [...GET, ['connection', 'x-a']],
    'keep-alive': [...GET, ['keep-alive', 'timeout=5']],
    'proxy-connection': [...GET, ['proxy-connection', 'close']],
    'transfer-encoding': [...GET, ['transfer-encoding', 'chunked']],
    upgrade: [...GET, ['upgrade', 'websocket']],
    'te other than trailers': [...GET, ['te', 'gzip']],
    'a length without a body': [...GET, ['content-length', '3']],
  }
  for (const [what, fields] of Object.entries(MALFORMED))
    it(`gets 400, and then a reset, for ${what}`, async () => {
      const { seen, connect } = serveFrames()
      const client = connect()
      client.request(1, fields)
      assert.equal(await client.status(1), ':status: 400')
      assert.equal(seen[0]?.fault, 'malformed_request')
      assert.equal(await client.reset(1), PROTOCOL_ERROR)
      client.request(3)
      assert.equal(await client.status(3), ':status: 200', 'the connection goes on')
    })

  it('has gRPC metadata without the white space around it, wherever content-type stands', async () => {
    const type = ['content-type', 'application/grpc'] as const
    const padded = [
      ['x-a', ' two words\t'],
      ['x-b', ' '],
    ] as const
    for (const fields of [
      [type, ...padded],
      [...padded, type],
    ]) {
      const { seen, connect } = serveFrames()
      const client = connect()
      // The second request comes from the table.
      for (const id of [1, 3]) client.request(id, [...POST, ...fields])
      assert.equal(await client.status(3), ':status: 200')
      for (const { headers } of seen) {
        const got = headers.filter((_, at) => headers[at - (at % 2)]?.startsWith('x-') === true)
        assert.deepEqual(got, ['x-a', 'two words', 'x-b', ''])
      }
    }
    const { connect } = serveFrames()
    const client = connect()
    client.request(1, [...POST.slice(0, 3), [':authority', ' a'], type])
    assert.equal(await client.status(1), ':status: 400', 'pseudo-fields are no metadata')
  })

  it('gets 400 when Host differs from :authority, but Host may repeat it', async () => {
    const { seen, connect } = serveFrames()
    const client = connect()
    client.request(1, [...GET, ['host', 'other']])
    client.request(3, [...GET, ['host', 'gateway']])
    assert.equal(await client.status(1), ':status: 400')
    assert.equal(await client.status(3), ':status: 200')
    assert.deepEqual([seen[0]?.fault, seen[1]?.headers], ['invalid_host', ['host', 'gateway']])
  })

  it('gets 400 for a body longer or shorter than announced', async () => {
    for (const text of ['hell', 'hello!']) {
      const { seen, connect } = serveFrames()
      const client = connect()
      client.request(1, [...POST, ['content-length', '5']], 0)
      await until(() => seen.length === 1)
      client.frame(DATA, END_STREAM, 1, text)
      assert.equal(await client.status(1), ':status: 400')
      assert.equal(await client.reset(1), PROTOCOL_ERROR)
    }
  })

  it('keeps CONNECT for the rules of HTTP/1.1, extended or not', async () => {
    const { seen, connect } = serveFrames()
    const client = connect()
    client.request(1, [
      [':method', 'CONNECT'],
      [':authority', 'a:1'],
    ])
    client.request(3, [[':method', 'CONNECT'], [':protocol', 'websocket'], ...GET.slice(1)])
    await until(() => seen.length === 2)
    assert.deepEqual(
      seen.map(({ method, fault }) => [method, fault]),
      [
        ['CONNECT', undefined],
        ['CONNECT', undefined],
      ],
    )
  })

  it('gets 431 for a head that HTTP/1.1 refuses too, also for a small block of a large head', async () => {
    const { seen, connect } = serveFrames()
    const client = connect()
    client.request(1, [...GET, ['x-a', 'y'.repeat(16_000)]])
    client.frame(HEADERS, END_STREAM, 3, blockOfBomb())
    client.frame(9, END_HEADERS, 3, Buffer.alloc(16_000, 0xbe))
    await until(() => seen.length === 2)
    assert.deepEqual(
      seen.map(({ fault }) => fault),
      [undefined, 'headers_too_large'],
    )
    client.request(5)
    assert.equal(await client.status(5), ':status: 200')
  })

  it('has no response body for HEAD, 204 and 304', async () => {
    const statuses = [200, 204, 304]
    const begun = ({ res }: Seen) => respond(res, { status: statuses.shift() ?? 500, body: 'hello' })
    const { connect } = serveFrames({ begun })
    const client = connect()
    client.request(1, [[':method', 'HEAD'], ...GET.slice(1)])
    client.request(3)
    client.request(5)
    await until(() => client.heads(5).length > 0)
    assert.deepEqual(
      client.frames.filter(({ type }) => type === DATA),
      [],
    )
    assert.deepEqual(client.heads(1)[0], [':status: 200', 'content-length: 5'])
  })

  it('has interim responses', async () => {
    const begun = ({ res }: Seen) => {
      res.writeInterim(103, 'Link: </a>\r\n')
      respond(res)
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    client.request(1)
    await until(() => client.heads(1).length === 2)
    assert.deepEqual(client.heads(1)[0], [':status: 103', 'link: </a>'])
  })

  it('gives up the table, in the next head, for a client that names its size (RFC 9113 section 4.3.1)', async () => {
    const begun = ({ res }: Seen) => {
      res.writeInterim(103, 'Link: </a>\r\n')
      respond(res)
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    const heads = async (id: number) => {
      client.request(id)
      await until(() => client.heads(id).length === 2)
      return client.of(HEADERS, id).map(({ payload }) => payload[0])
    }
    const sized = () => client.frame(SETTINGS, 0, 0, Buffer.from([0, 1, 0, 0, 0, 0]))
    assert.deepEqual(await heads(1), [0x08, 0x88])
    sized()
    assert.deepEqual(await heads(3), [0x20, 0x88])
    assert.deepEqual(client.heads(3), [[':status: 103', 'link: </a>'], OK])
    assert.deepEqual(await heads(5), [0x08, 0x88])
    sized()
    assert.deepEqual(await heads(7), [0x20, 0x88])
  })

  it('gives up the table also in trailers that were waiting, after the settings are acknowledged', async () => {
    const begun = ({ res }: Seen) => {
      res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
      res.write(Buffer.from('hello'))
      res.end('X-Sum: 1\r\n')
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
    client.request(1)
    await client.status(1)
    const before = client.frames.length
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5]))
    await until(() => client.of(HEADERS, 1).length === 2)
    const after = client.frames.slice(before)
    assert.deepEqual(
      after.map(({ type }) => type),
      [SETTINGS, DATA, HEADERS],
    )
    assert.equal(after[2]?.payload[0], 0x20)
    assert.deepEqual(client.heads(1)[1], ['x-sum: 1'])
  })

  it('ends when the client resets it', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1)
    await until(() => seen.length === 1)
    client.frame(RST_STREAM, 0, 1, numbers(CANCEL))
    await until(() => seen[0]?.closes === 1)
  })

  it('is over when its response ends, though the last announced byte came earlier', async () => {
    let over = 0
    const begun = ({ res }: Seen) => {
      res.onClose(() => over++)
      const lines = 'Content-Length: 5\r\n'
      res.writeHead({ status: 200, lines, contentLength: 5, dated: false })
      res.write(Buffer.from('whole'))
      setImmediate(() => res.end())
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    for (let i = 0; i < 150; i++) {
      client.request(2 * i + 1)
      await until(() => over > i)
    }
    assert.equal(client.of(DATA, 299).at(-1)?.flags, END_STREAM)
    assert.equal(over, 150)
  })

  it('that is broken off is reset, and other streams go on', async () => {
    const begun = ({ res, target }: Seen) => {
      if (target === '/') return respond(res)
      res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
      res.write(Buffer.from('part'))
      res.breakOff()
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    client.request(1, [...GET.slice(0, 2), [':path', '/broken'], ...GET.slice(3)])
    client.request(3)
    assert.equal(await client.reset(1), 2)
    assert.equal(await client.status(3), ':status: 200')
  })
})

describe('the windows of HTTP/2', () => {
  it('hold a response back until the client opens them, and its producer with it', async () => {
    let drained = 0
    let seen: Seen | undefined
    const begun = (one: Seen) => {
      seen = one
      one.res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
      one.res.onDrain(() => drained++)
      assert.equal(one.res.write(Buffer.alloc(70_000)), false)
    }
    const { connect } = serveFrames({ begun })
    const client = connect()
    client.request(1)
    const sent = () => client.of(DATA, 1).reduce((sum, { payload }) => sum + payload.length, 0)
    await until(() => sent() === 65_535)
    client.frame(WINDOW_UPDATE, 0, 1, numbers(10_000))
    await client.settled()
    assert.deepEqual([sent(), drained], [65_535, 0], 'the window of the connection is still closed')
    client.frame(WINDOW_UPDATE, 0, 0, numbers(10_000))
    await until(() => drained === 1)
    assert.equal(sent(), 70_000)
    seen?.res.end()
    await until(() => client.of(DATA, 1).at(-1)?.flags === END_STREAM)
  })

  it('follow SETTINGS, also below zero', async () => {
    const { connect } = serveFrames({ begun: ({ res }) => respond(res, { body: 'x'.repeat(100) }) })
    const client = connect()
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 40]))
    client.request(1)
    await until(() => client.of(DATA, 1).length === 1)
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 10]))
    client.frame(WINDOW_UPDATE, 0, 1, numbers(30))
    await client.settled()
    assert.equal(client.of(DATA, 1).length, 1)
    client.frame(WINDOW_UPDATE, 0, 1, numbers(60))
    await until(() => client.of(DATA, 1).at(-1)?.flags === END_STREAM)
    assert.deepEqual(
      client.of(DATA, 1).map(({ payload }) => payload.length),
      [40, 60],
    )
  })

  it('open for more of a body only as far as it is read', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1, POST, 0)
    for (let i = 0; i < 4; i++) client.frame(DATA, 0, 1, Buffer.alloc(16_000))
    await until(() => seen.length === 1)
    await client.settled()
    assert.deepEqual(client.of(WINDOW_UPDATE, 1), [])
    seen[0]?.body?.resume()
    await until(() => client.of(WINDOW_UPDATE, 1).length > 0)
    const credit = client.of(WINDOW_UPDATE, 1).reduce((sum, { payload }) => sum + payload.readUInt32BE(), 0)
    assert.ok(credit <= 64_000)
  })

  it('must be respected by the client', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1, POST, 0)
    for (let i = 0; i < 5; i++) client.frame(DATA, 0, 1, Buffer.alloc(16_000))
    assert.equal(await client.reset(1), FLOW_CONTROL_ERROR)
    await until(() => seen.every(({ closes }) => closes === 1))
  })

  it('let other streams pass while one stream waits', async () => {
    const { connect } = serveFrames({ begun: ({ res }) => respond(res, { body: 'x'.repeat(50) }) })
    const client = connect()
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
    client.request(1)
    client.request(3)
    client.frame(WINDOW_UPDATE, 0, 3, numbers(50))
    await until(() => client.of(DATA, 3).length === 1)
    assert.deepEqual(client.of(DATA, 1), [])
  })
})

describe('a response of HTTP/2 that waits for its client to read', () => {
  const WIDE = Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff])
  const head = { status: 200, lines: '', contentLength: undefined, dated: true }
  const sizes = (client: FrameClient, id: number) =>
    client.of(DATA, id).reduce((sum, { payload }) => sum + payload.length, 0)

  it('goes on though another response takes all that was left of the window', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.frame(SETTINGS, 0, 0, WIDE)
    client.frame(WINDOW_UPDATE, 0, 0, numbers(100_000))
    client.request(1)
    client.request(3)
    await until(() => seen.length === 2)
    const [greedy, patient] = seen as [Seen, Seen]
    for (const { res } of [greedy, patient]) {
      res.writeHead(head)
      res.flushHead()
    }
    await client.settled()
    client.wire.stall(true)
    let drained = 0
    patient.res.onDrain(() => drained++)
    const { writableHighWaterMark } = client.wire
    assert.equal(
      patient.res.write(Buffer.alloc(writableHighWaterMark)),
      false,
      'it is written, and nothing more',
    )
    assert.equal(greedy.res.write(Buffer.alloc(200_000)), false)
    client.wire.stall(false)
    await until(() => sizes(client, 1) + sizes(client, 3) === 165_535)
    await until(() => drained === 1)
    assert.equal(sizes(client, 3), writableHighWaterMark)
  })

  it('is not broken off while the client takes other responses, but is once it takes nothing at all', async () => {
    const { seen, time, connect } = serveFrames({ begun: () => {} }, { timeouts: { idleMs: 3000 } })
    const [client, still] = [connect(), connect()]
    for (const one of [client, still]) one.frame(SETTINGS, 0, 0, WIDE)
    for (const id of [1, 3, 5]) client.request(id)
    still.request(1)
    await until(() => seen.length === 4)
    for (const { res } of seen) {
      res.writeHead(head)
      res.write(Buffer.alloc(100_000))
    }
    await until(() => sizes(client, 1) === 65_535)
    for (time.nowMs = 2000; time.nowMs <= 4000; time.nowMs += 2000) {
      client.frame(WINDOW_UPDATE, 0, 0, numbers(1000))
      await client.settled()
    }
    assert.equal(await still.reset(1), ENHANCE_YOUR_CALM)
    const late = 'response_timeout'
    const faults = () => seen.map(({ fault }) => fault)
    assert.deepEqual(faults(), [undefined, undefined, undefined, late])
    time.nowMs = 7000
    await until(() => faults().every((fault) => fault === late))
  })

  it('has its turn when the window is too small for all responses', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.frame(SETTINGS, 0, 0, WIDE)
    for (const id of [1, 3, 5]) client.request(id)
    await until(() => seen.length === 3)
    for (const { res } of seen) {
      res.writeHead(head)
      res.write(Buffer.alloc(100_000))
    }
    await until(() => sizes(client, 1) === 65_535)
    for (let at = 0; at < 6; at++) {
      client.frame(WINDOW_UPDATE, 0, 0, numbers(1000))
      await client.settled()
    }
    assert.deepEqual([sizes(client, 1), sizes(client, 3), sizes(client, 5)], [67_535, 2000, 2000])
  })
})

describe('the requests of one connection of HTTP/2', () => {
  it('begin ten at a time, one group in each turn of the loop, whatever the next reads bring', async () => {
    const { seen, connect } = serveFrames()
    const client = connect()
    await client.settled()
    for (let first = 1; first < 120; first += 40) {
      const ids = Array.from({ length: 20 }, (_, at) => first + 2 * at)
      client.bytes(
        Buffer.concat(ids.map((id) => frameOf(HEADERS, END_STREAM | END_HEADERS, id, blockOf(GET)))),
      )
    }
    for (let begun = 10; begun <= 60; begun += 10) {
      assert.equal(seen.length, begun)
      await turn()
    }
    assert.equal(seen.length, 60)
  })
})

describe('a connection of HTTP/2', () => {
  it('that ends finishes what it has begun, and leaves the rest to another connection', async () => {
    const { seen, http, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1)
    await until(() => seen.length === 1)
    http.closeIdleConnections()
    assert.equal(await client.goAway(), NO_ERROR)
    client.request(3)
    await client.settled()
    assert.equal(client.wire.destroyed, false)
    respond((seen[0] as Seen).res)
    await until(() => client.wire.writableFinished)
    assert.deepEqual([client.heads(1), client.of(HEADERS, 3), seen.length], [[OK], [], 1])
    assert.equal(client.of(GOAWAY, 0)[0]?.payload.readUInt32BE(0), 1)
    client.wire.sendEnd()
    await until(() => client.wire.destroyed)
  })

  it('cancels every stream when the client is gone', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1)
    client.request(3, POST, 0)
    await until(() => seen.length === 2)
    client.wire.sendEnd()
    await until(() => seen.every(({ closes }) => closes === 1))
    assert.equal(seen[1]?.body?.destroyed, true)
  })

  it('ends when the client says goodbye', async () => {
    const { connect } = serveFrames()
    const client = connect()
    client.request(1)
    await client.status(1)
    client.frame(GOAWAY, 0, 0, numbers(0, 0))
    await until(() => client.wire.writableFinished)
  })

  it('ends when another process takes over, which serves what comes later', async () => {
    const { seen, connections, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1)
    await until(() => seen.length === 1)
    const parked: unknown[] = []
    connections.park((connection) => parked.push(connection))
    client.request(3)
    const later = connect()
    assert.deepEqual([await client.goAway(), seen.length, parked.length], [NO_ERROR, 1, 1])
    assert.equal(later.wire.received, '', 'the other one reads its preface')
    respond((seen[0] as Seen).res)
    await until(() => client.wire.writableFinished)
    assert.deepEqual(client.heads(1), [OK])
  })

  it('does not end when a takeover is called off before the client has spoken', async () => {
    const { seen, connections, http } = serveFrames()
    const [silent, begun] = [wireTo(http), wireTo(http)]
    begun.send('PRI * HT')
    const parked: ParkedConnection[] = []
    connections.park((connection) => parked.push(connection))
    const late = wireTo(http)
    assert.equal(parked.length, 3)
    connections.unpark()
    for (const connection of parked) connection.goOn()
    const client = new FrameClient(silent)
    client.request(1)
    assert.deepEqual([await client.status(1), seen.length], [OK[0], 1])
    const partial = new FrameClient(begun, ['TP/2.0\r\n\r\nSM\r\n\r\n'])
    partial.frame(SETTINGS, 0, 0)
    partial.request(1)
    assert.equal(await partial.status(1), OK[0])
    late.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => late.received.startsWith('HTTP/1.1 200'))
  })

  it('ends at once when HTTP/2 is not configured', async () => {
    const wire = wireTo(serverOf(scribe()))
    new FrameClient(wire)
    await until(() => wire.received.startsWith('HTTP/1.1 400'))
  })

  it('is HTTP/1.1 when it does not begin with the preface', async () => {
    const { http } = serveFrames()
    const other = wireTo(http)
    other.send('PUT')
    other.send(' / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n')
    await until(() => other.received.startsWith('HTTP/1.1 200'))
    const half = wireTo(http)
    half.send('PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n')
    await until(() => half.received.startsWith('HTTP/1.1 400'))
    for (const before of ['\r\n', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n']) {
      const later = wireTo(http)
      later.send(before)
      later.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
      await until(() => later.received.includes('HTTP/1.1 400'))
    }
  })

  it('ends with a fault of HTTP/2 when only the first line of its preface is right (RFC 9113 section 3.4)', async () => {
    for (const pieces of [['PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n'], ['PRI * HTTP', '/2.0\r\n', '\r\nX']]) {
      const wire = wireTo(serveFrames().http)
      const client = new FrameClient(wire, pieces)
      assert.equal(await client.goAway(), PROTOCOL_ERROR)
    }
    const { time, http } = serveFrames()
    const slow = new FrameClient(wireTo(http), ['PRI * HTTP/2.0\r\n'])
    await slow.settled()
    time.nowMs = 10_000
    assert.equal(await slow.goAway(), NO_ERROR)
  })
})

function blockOfBomb(): Buffer {
  const value = 'v'.repeat(4000)
  const length = `\x7f${String.fromCharCode(0x80 | ((4000 - 127) & 127), (4000 - 127) >> 7)}`
  return Buffer.from(`\x82\x86\x84\x41\x01g\x40\x01a${length}${value}`, 'latin1')
}
