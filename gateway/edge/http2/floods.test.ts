import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { until } from '../http1/conformance/client.test-support.ts'
import { respond, respondEmpty, type Seen } from '../http1/conformance/scribe.test-support.ts'
import {
  blockOf,
  type FrameClient,
  frameOf,
  GET,
  numbers,
  POST,
  serveFrames,
} from './frame-client.test-support.ts'
import {
  CANCEL,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  HEADERS,
  NO_ERROR,
  PING,
  PRIORITY,
  RST_STREAM,
  SETTINGS,
  WINDOW_UPDATE,
} from './frames.ts'

/** More than any allowance. */
const MANY = 1200

const FLOODS: Readonly<Record<string, (client: FrameClient, at: number) => void>> = {
  PING: (client) => client.frame(PING, 0, 0, numbers(0, 0)),
  SETTINGS: (client) => client.frame(SETTINGS, 0, 0),
  PRIORITY: (client) => client.frame(PRIORITY, 0, 3, '\0\0\0\0\0'),
  'WINDOW_UPDATE of one byte': (client) => client.frame(WINDOW_UPDATE, 0, 0, numbers(1)),
  'empty DATA': (client) => client.frame(DATA, 0, 1),
  'DATA of nothing but padding': (client) => client.frame(DATA, 8, 1, '\x01\0'),
  'frames of unknown types': (client) => client.frame(200, 0, 0, 'x'),
  'malformed requests': (client, at) => client.request(2 * at + 3, GET.slice(1)),
  'heads of a few bytes that mean many fields': (client, at) => {
    const few = Buffer.concat([blockOf(GET), Buffer.alloc(2000, 0x82)])
    client.frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 3, few)
  },
  'heads for a stream that was reset': (client, at) => {
    if (at === 0) client.request(3, GET.slice(1))
    client.request(3)
  },
  'heads for a stream that is under way': (client) => client.request(1, [['x-a', '1']], 0),
  'requests beyond the streams it may have': (client, at) => client.request(2 * at + 3, POST, 0),
  'faults for which streams are reset (CVE-2025-8671)': (client, at) => {
    client.request(2 * at + 3)
    client.frame(WINDOW_UPDATE, 0, 2 * at + 3, numbers(0))
  },
  'bodies that are not as long as announced': (client, at) => {
    client.request(2 * at + 3, [...POST, ['content-length', '5']], 0)
    client.frame(DATA, END_STREAM, 2 * at + 3, 'x')
  },
  'streams that are begun and reset (CVE-2023-44487)': (client, at) => {
    client.request(2 * at + 3)
    client.frame(RST_STREAM, 0, 2 * at + 3, numbers(CANCEL))
  },
}

describe('a body that nobody reads', () => {
  /** Each read has one byte for the body, and much for a stream that was reset. */
  async function waiting(frames: number, beside: number): Promise<Buffer[]> {
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1, [...POST, ['content-length', '16384']], 0)
    client.request(3, POST, 0)
    await until(() => seen.length === 2)
    seen[1]?.res.breakOff()
    await until(() => client.of(RST_STREAM, 3).length > 0)
    const late = frameOf(DATA, 0, 3, 'x'.repeat(beside))
    for (let at = 0; at < frames; at++) {
      client.bytes(Buffer.concat([frameOf(DATA, 0, 1, 'x'), beside === 0 ? Buffer.alloc(0) : late]))
      if (at % 50 === 0) await client.settled()
    }
    await client.settled()
    const pieces: Buffer[] = []
    let length = 0
    seen[0]?.body?.on('data', (piece: Buffer) => {
      pieces.push(piece)
      length += piece.length
    })
    await until(() => length === frames)
    assert.equal(client.wire.destroyed, false)
    return pieces
  }
  const heldBy = (pieces: readonly Buffer[]) =>
    [...new Set(pieces.map(({ buffer }) => buffer))].reduce((sum, { byteLength }) => sum + byteLength, 0)

  it('takes memory for its bytes, but not for each frame', async () => {
    const pieces = await waiting(16_000, 0)
    assert.ok(
      pieces.length < 10 && heldBy(pieces) <= 48_000,
      `${pieces.length} pieces: ${heldBy(pieces)} bytes`,
    )
  })

  it('keeps nothing of what came with it', async () => {
    const pieces = await waiting(500, 16_000)
    assert.ok(
      pieces.length < 10 && heldBy(pieces) <= 2048,
      `${pieces.length} pieces: ${heldBy(pieces)} bytes`,
    )
  })
})

describe('a client that only makes work is sent away:', () => {
  for (const [what, send] of Object.entries(FLOODS))
    it(what, async () => {
      const { seen, connect } = serveFrames({ begun: () => {}, refused: respondEmpty })
      const client = connect()
      client.request(1, POST, 0)
      await until(() => seen.length === 1)
      for (let at = 0; at < MANY && !client.wire.destroyed; at++) {
        send(client, at)
        if (at % 20 === 0) await client.settled()
      }
      assert.equal(await client.goAway(), ENHANCE_YOUR_CALM)
      await until(() => seen.every(({ closes }) => closes === 1))
      const others = connect('192.0.2.2')
      others.request(1)
      await until(() => seen.at(-1)?.closes === 0)
    })

  it('CONTINUATION without end, of empty and of full frames', async () => {
    for (const piece of ['', 'x'.repeat(9000)]) {
      const { seen, connect } = serveFrames()
      const client = connect()
      client.frame(HEADERS, 0, 1, blockOf(GET))
      for (let i = 0; i < 20; i++) client.frame(CONTINUATION, 0, 1, piece)
      assert.equal(await client.goAway(), ENHANCE_YOUR_CALM)
      assert.equal(seen.length, 0)
    }
  })

  it('heads that decode to a multiple of their bound, at the second at the latest', async () => {
    const { seen, connect } = serveFrames({ refused: respondEmpty })
    const client = connect()
    const bomb = Buffer.alloc(16_000, 0xbe)
    client.request(1, [...GET, ['x-a', '1']])
    client.frame(
      HEADERS,
      END_STREAM | END_HEADERS,
      3,
      Buffer.concat([Buffer.from('\x40\x01a\x01b', 'latin1'), bomb]),
    )
    await until(() => seen.length === 2)
    assert.equal(seen[1]?.fault, 'headers_too_large')
    for (let id = 5; id < 20; id += 2) client.frame(HEADERS, END_STREAM | END_HEADERS, id, bomb)
    assert.equal(await client.goAway(), ENHANCE_YOUR_CALM)
    assert.ok(seen.length < 9, `${seen.length} were begun`)
  })

  it('a window that opens byte by byte', async () => {
    const { connect } = serveFrames({ begun: ({ res }) => respond(res, { body: 'x'.repeat(5000) }) })
    const client = connect()
    client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
    client.request(1)
    for (let at = 0; at < MANY; at++) client.frame(WINDOW_UPDATE, 0, 1, numbers(1))
    assert.equal(await client.goAway(), ENHANCE_YOUR_CALM)
  })

  it('but not a client that pings while it sends requests', async () => {
    const { connect } = serveFrames()
    const client = connect()
    for (let id = 1; id < 2 * MANY; id += 2) {
      client.request(id)
      client.frame(PING, 0, 0, numbers(0, 0))
      if (id % 20 === 1) await client.settled()
    }
    await until(() => client.wire.received.split('\0\0\x08\x06').length > MANY)
  })
})

describe('a client of gRPC', () => {
  it('may measure with a PING at each short message that it gets', async () => {
    const pieces = MANY
    const { seen, connect } = serveFrames({ begun: () => {} })
    const client = connect()
    client.request(1)
    await until(() => seen.length === 1)
    const [{ res } = {} as Seen] = seen
    res.writeHead({ status: 200, lines: '', contentLength: undefined, dated: true })
    for (let at = 0; at < pieces; at++) {
      res.write(Buffer.from('short'))
      client.frame(WINDOW_UPDATE, 0, 0, numbers(5))
      client.frame(PING, 0, 0, numbers(0, 0))
      if (at % 20 === 1) await client.settled()
    }
    await until(() => client.wire.received.split('\0\0\x08\x06').length > pieces)
  })
})

describe('a client that is too slow', () => {
  it('with the rest of a head is sent away', async () => {
    const { time, connect } = serveFrames()
    const late = connect()
    late.frame(HEADERS, 0, 1, blockOf(GET))
    const partial = connect()
    partial.bytes(Buffer.from([0, 0, 8, PING, 0, 0, 0]))
    await late.settled()
    time.nowMs = 9900
    late.frame(CONTINUATION, 0, 1)
    await late.settled()
    time.nowMs = 10_000
    assert.equal(await late.goAway(), ENHANCE_YOUR_CALM)
    assert.equal(await partial.goAway(), ENHANCE_YOUR_CALM)
  })

  it('with a body gets the same response as in HTTP/1.1', async () => {
    const timeouts = { bodyPace: { graceMs: 1000, minBytesPerSecond: 100 } }
    const { seen, time, connect } = serveFrames({ begun: () => {} }, { timeouts })
    const client = connect()
    client.request(1, POST, 0)
    await until(() => seen.length === 1)
    seen[0]?.body?.resume()
    client.frame(DATA, 0, 1, 'x'.repeat(50))
    await client.settled()
    time.nowMs = 1000
    await until(() => seen[0]?.fault === 'request_timeout')
    assert.equal(await client.status(1), ':status: 400')
  })

  it('is not blamed for a body that nobody reads', async () => {
    const timeouts = { bodyPace: { graceMs: 1000, minBytesPerSecond: 100 }, idleMs: 1e9 }
    const { seen, time, connect } = serveFrames({ begun: () => {} }, { timeouts })
    const client = connect()
    client.request(1, POST, 0)
    for (let i = 0; i < 4; i++) client.frame(DATA, 0, 1, Buffer.alloc(16_000))
    await until(() => seen.length === 1)
    const waiting = connect()
    waiting.request(1, POST, 0)
    await until(() => seen.length === 2)
    time.nowMs = 5000
    await until(() => seen[1]?.fault === 'request_timeout')
    assert.equal(seen[0]?.fault, undefined)
  })

  it('to open its window holds a stream no longer than a client of HTTP/1.1 that takes nothing', async () => {
    // The second exchange was over when the service had sent all, so nobody breaks its response off.
    for (const refused of [({ res }: Seen) => res.breakOff(true), () => {}]) {
      const begun = ({ res }: Seen) => respond(res, { body: 'hello' })
      const { seen, time, connect } = serveFrames({ begun, refused }, { timeouts: { idleMs: 3000 } })
      const client = connect()
      client.frame(SETTINGS, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0]))
      client.request(1)
      assert.equal(await client.status(1), ':status: 200')
      time.nowMs = 2999
      client.frame(WINDOW_UPDATE, 0, 1, numbers(1))
      await until(() => client.of(DATA, 1).length === 1)
      time.nowMs = 5998
      await client.settled()
      assert.equal(seen[0]?.closes, 0)
      time.nowMs = 5999
      assert.equal(await client.reset(1), ENHANCE_YOUR_CALM)
      assert.deepEqual([seen[0]?.fault, seen[0]?.closes], ['response_timeout', 1])
    }
  })

  it('to send any request is told to go', async () => {
    const { time, connect } = serveFrames()
    const unused = connect()
    const idle = connect()
    idle.request(1)
    await idle.status(1)
    time.nowMs = 6000
    assert.equal(await idle.goAway(), NO_ERROR)
    time.nowMs = 10_000
    assert.equal(await unused.goAway(), NO_ERROR)
    time.nowMs = 30_000
    await until(() => idle.wire.destroyed && unused.wire.destroyed)
  })

  it('to read the end of its last response is sent away, but not a client that reads on', async () => {
    const { seen, time, connect } = serveFrames({}, { timeouts: { idleMs: 3000 } })
    const [client, reader] = [connect(), connect()]
    for (const { wire } of [client, reader]) wire.stall(true)
    for (const one of [client, reader]) one.request(1)
    await until(() => seen.length === 2 && seen.every(({ closes }) => closes === 1))
    time.nowMs = 6000
    await until(() => client.wire.writableEnded && reader.wire.writableEnded)
    time.nowMs = 8500
    reader.wire.stall(false)
    await until(() => reader.wire.writableFinished)
    assert.equal(await reader.goAway(), NO_ERROR)
    assert.equal(client.wire.destroyed, false)
    time.nowMs = 9000
    await until(() => client.wire.destroyed)
  })

  it('to read its responses gets no more requests begun', async () => {
    const lines = `X-Long: ${'x'.repeat(8000)}\r\n`
    const begun = ({ res }: Seen) => {
      res.writeHead({ status: 200, lines, contentLength: undefined, dated: true })
      res.end()
    }
    const { seen, time, connect } = serveFrames({ begun }, { timeouts: { idleMs: 3000, keepAliveMs: 1e6 } })
    const client = connect()
    client.wire.stall(true)
    for (let id = 1; id < 400; id += 2) {
      client.request(id)
      await client.settled()
    }
    assert.ok(seen.length < 50, `${seen.length} were begun`)
    await until(() => {
      time.nowMs += 100
      return client.wire.destroyed
    })
  })
})
