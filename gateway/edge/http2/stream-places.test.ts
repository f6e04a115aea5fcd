import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { until } from '../http1/conformance/client.test-support.ts'
import { respond, type Seen, wireTo } from '../http1/conformance/scribe.test-support.ts'
import {
  blockOf,
  type Fields,
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
  GOAWAY,
  HEADERS,
  NO_ERROR,
  PRIORITY_FLAG,
  PROTOCOL_ERROR,
  REFUSED_STREAM,
  RST_STREAM,
  SETTINGS,
} from './frames.ts'

const WAITING: Fields = [...GET.slice(0, 2), [':path', '/waits'], ...GET.slice(3)]
const REFUSED = ({ res }: Seen) => respond(res, { status: 503, body: 'too many' })

/** Responds at once, but never to `/waits`. */
function serveSome(terms: Parameters<typeof serveFrames>[1] = {}) {
  const begun = ({ target, res }: Seen) => {
    if (target !== '/waits') respond(res)
  }
  return serveFrames({ begun, refused: REFUSED }, terms)
}

function begunOf(seen: readonly Seen[]): number {
  return seen.filter(({ fault }) => fault === undefined).length
}

describe('a stream without a place', () => {
  it('beyond the settings gets a response, and then the reset that RFC 9113 asks for', async () => {
    const { seen, connect } = serveSome()
    const client = connect()
    for (let id = 1; id <= 201; id += 2) client.request(id, WAITING)
    assert.equal(await client.reset(201), REFUSED_STREAM)
    assert.deepEqual(client.heads(201), [[':status: 503', 'content-length: 8']])
    assert.equal(client.of(DATA, 201)[0]?.flags, END_STREAM)
    assert.deepEqual([begunOf(seen), seen.at(-1)?.fault, seen.at(-1)?.closes], [100, 'overloaded', 1])
  })

  it('beyond the share of its address gets a response, and no place in the common room', async () => {
    const { seen, connect } = serveSome({ maxConnections: 40 })
    const greedy = connect('192.0.2.1')
    for (let id = 1; id <= 99; id += 2) greedy.request(id, WAITING)
    await until(() => greedy.heads(99).length === 1 && seen.length === 50)
    assert.deepEqual([begunOf(seen), greedy.frames.filter(({ type }) => type === RST_STREAM)], [30, []])
    const other = connect('192.0.2.2')
    other.request(1, WAITING)
    other.request(3, WAITING)
    await until(() => begunOf(seen) === 32)
  })

  it('whose body still comes is told to stop', async () => {
    const { connect } = serveSome({ maxConnections: 1 })
    const client = connect()
    client.request(1, WAITING)
    client.request(3, POST, 0)
    assert.equal(await client.reset(3), NO_ERROR)
    assert.equal(client.of(DATA, 3)[0]?.payload.toString(), 'too many')
  })

  it('is over at once when the client takes no body', async () => {
    const { seen, connect } = serveSome({ maxConnections: 1 })
    const client = connect()
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
    client.request(1, WAITING)
    client.request(3)
    assert.equal(await client.reset(3), REFUSED_STREAM)
    assert.deepEqual([client.heads(3)[0]?.[0], seen[1]?.closes], [':status: 503', 1])
  })

  it('is one of few that wait for their record, and GOAWAY says that the others were not handled', async () => {
    const release: (() => void)[] = []
    const refused = (one: Seen) => {
      release.push(one.res.hold())
      REFUSED(one)
    }
    const { seen, connect } = serveFrames({ begun: () => {}, refused })
    const client = connect()
    for (let id = 1; id <= 999; id += 2) client.request(id)
    assert.equal(await client.goAway(), NO_ERROR)
    const last = client.of(GOAWAY, 0)[0]?.payload.readUInt32BE(0) ?? 0
    await until(() => seen.length === (last + 1) / 2)
    assert.deepEqual([seen.length, begunOf(seen), last], [356, 100, 711])
    await client.settled()
    assert.deepEqual([seen.length, client.heads(201)], [356, []])
    const other = connect('192.0.2.2')
    other.request(1)
    await until(() => seen.length === 357)
    for (const one of release) one()
    await until(() => client.of(RST_STREAM, last).length === 1)
    assert.equal(client.of(RST_STREAM, last + 2).length, 0)
    const again = connect('192.0.2.3')
    for (let id = 1; id <= 201; id += 2) again.request(id)
    await until(() => seen.at(-1)?.fault === 'overloaded' && release.length === 257)
  })
})

describe('a request that never begins', () => {
  it('is counted when its connection fails, and GOAWAY says that it was not handled', async () => {
    const { seen, left, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    for (let id = 1; id <= 29; id += 2) client.request(id)
    client.frame(DATA, 0, 0)
    assert.equal(await client.goAway(), PROTOCOL_ERROR)
    const last = client.of(GOAWAY, 0)[0]?.payload.readUInt32BE(0) ?? 0
    await client.settled()
    assert.deepEqual(
      [seen.length, left.reduce((sum, count) => sum + count, 0)],
      [(last + 1) / 2, 14 - (last - 1) / 2],
    )
    assert.ok(seen.every(({ closes }) => closes === 1))
  })

  it('is counted when it is reset in time', async () => {
    const { seen, left, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    const bytes: Buffer[] = []
    for (let id = 1; id <= 39; id += 2) {
      bytes.push(frameOf(HEADERS, END_STREAM | END_HEADERS, id, blockOf(GET)))
      bytes.push(frameOf(RST_STREAM, 0, id, numbers(CANCEL)))
    }
    client.bytes(Buffer.concat(bytes))
    await until(() => left.reduce((sum, count) => sum + count, 0) === 20)
    assert.equal(seen.length, 0)
  })

  it('is not one that depends on itself: that one begins, and gets 400', async () => {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    const dependent = Buffer.concat([Buffer.from([0, 0, 0, 1, 0]), blockOf(GET)])
    client.frame(HEADERS, END_STREAM | END_HEADERS | PRIORITY_FLAG, 1, dependent)
    assert.equal(await client.reset(1), PROTOCOL_ERROR)
    assert.deepEqual([client.heads(1)[0]?.[0], seen[0]?.fault], [':status: 400', 'malformed_request'])
  })
})

describe('the common room', () => {
  it('is shared by streams and connections, whichever come first', async () => {
    const { seen, http, connections, connect } = serveSome({ maxConnections: 40 })
    const greedy = connect('192.0.2.1')
    for (let id = 1; id <= 79; id += 2) greedy.request(id, WAITING)
    await until(() => begunOf(seen) === 30)
    const wires = Array.from({ length: 40 }, () => wireTo(http, '192.0.2.1'))
    await until(() => wires.every(({ destroyed }) => destroyed))
    assert.equal(connections.size, 1)
    const others = Array.from({ length: 40 }, () => wireTo(http, '192.0.2.2'))
    await until(() => others.filter(({ destroyed }) => !destroyed).length === 6)
  })

  it('always lets an open connection have a request', async () => {
    const { seen, http, connect } = serveSome({ maxConnections: 4 })
    const clients = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'].map((address) => connect(address))
    for (const client of clients) client.request(1, WAITING)
    await until(() => begunOf(seen) === 4)
    assert.equal(wireTo(http, '192.0.2.5').destroyed, true)
  })

  it('takes a connection from the address with most of the room, in streams or in connections', async () => {
    const { seen, connect } = serveSome({ maxConnections: 40 })
    const greedy = connect('192.0.2.1')
    for (let id = 1; id <= 79; id += 2) greedy.request(id, WAITING)
    await until(() => begunOf(seen) === 30)
    for (const [at, count] of [6, 3, 1].entries())
      for (let i = 0; i < count; i++) connect(`192.0.3.${at}`).request(1, WAITING)
    await until(() => begunOf(seen) === 40)
    const late = connect('192.0.2.5')
    late.request(1)
    assert.equal(await late.status(1), ':status: 200')
    assert.equal(greedy.wire.destroyed, true)
    await until(() => seen.filter(({ target, closes }) => target === '/waits' && closes === 1).length === 40)
  })
})
