import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import {
  ACK,
  END_STREAM,
  frameOfNumbers,
  GOAWAY,
  HEADERS,
  PING,
  RST_STREAM,
} from '../../edge/http2/frames.ts'
import {
  bodyOf,
  FRAGILE,
  type Received,
  type RequestFacts,
  send,
  until,
} from '../contract/scripted.test-support.ts'
import { data, type FramedConnection, head, pair, type Script } from './framed.test-support.ts'

const OK = [':status', '200']
const RST = (id: number, code: number) => frameOfNumbers(RST_STREAM, id, code)

async function responseTo(t: TestContext, script: Script, request: RequestFacts = { method: 'POST' }) {
  const { framed, upstream } = await pair(t, script)
  const received = await send(upstream, request).over
  return { received, framed }
}

const outcome = ({ fault, ended }: Received) => fault?.kind ?? (ended ? 'end' : 'none')

describe('a body of one-byte DATA', () => {
  const FRAMES = 60_000
  const many = (id: number) =>
    Buffer.concat(Array.from({ length: FRAMES }, (_, at) => data(id, String(at % 10))))
  const text = '0123456789'.repeat(FRAMES / 10)

  async function piecesOf(
    t: TestContext,
    end: (connection: FramedConnection, id: number) => void,
    pausesAt = 0,
  ) {
    const { upstream } = await pair(t, (connection, id) => {
      connection.write(head(id, OK), many(id))
      end(connection, id)
    })
    let pieces = 0
    const { over } = send(upstream, {}, (_, call) => {
      if (++pieces !== pausesAt) return true
      setTimeout(() => call.resume(), 5)
      return false
    })
    return { received: await over, pieces }
  }

  it('is passed on in few pieces, whole and in order', async (t) => {
    const { received, pieces } = await piecesOf(t, ({ write }, id) => write(data(id, '', END_STREAM)))
    assert.equal(bodyOf(received), text)
    assert.ok(pieces < FRAMES / 100, `${pieces} pieces`)
  })

  it('is whole though its reader pauses, and though the connection ends right after the body', async (t) => {
    for (const pausesAt of [0, 5, 17, 18, 19]) {
      const end = ({ write, socket }: FramedConnection, id: number) => {
        write(data(id, '', END_STREAM))
        socket.end()
      }
      const { received } = await piecesOf(t, end, pausesAt)
      assert.deepEqual([outcome(received), bodyOf(received).length], ['end', FRAMES], `paused at ${pausesAt}`)
      assert.equal(bodyOf(received), text)
    }
  })
})

describe('a response over HTTP/2', () => {
  it('is passed on with its early hints, its fields, its body and its trailers', async (t) => {
    const { upstream } = await pair(t, ({ write }, id) =>
      write(
        head(id, [':status', '103', 'link', '</a>']),
        head(id, [...OK, 'x-a', 'b\xe9', 'set-cookie', 'a=1', 'set-cookie', 'b=2']),
        data(id, 'hel'),
        data(id, 'lo'),
        head(id, ['grpc-status', '0'], END_STREAM),
      ),
    )
    const told: unknown[] = []
    await new Promise<void>((resolve) => {
      upstream.send(
        {
          method: 'GET',
          target: '/',
          fields: [],
          body: null,
          upgrade: undefined,
          idleMs: 20_000,
          totalMs: undefined,
        },
        {
          isHolding: false,
          information: (status, fields) =>
            told.push(
              status,
              fields.map(({ line }) => line),
            ),
          head: (status, fields) =>
            told.push(
              status,
              fields.map(({ line }) => line),
            ),
          data: (piece) => told.push(piece.toString()) > 0,
          end: (trailers) => {
            told.push(trailers?.map(({ line }) => line))
            resolve()
          },
          upgrade: () => assert.fail(),
          fault: ({ cause }) => assert.fail(cause),
        },
      )
    })
    assert.deepEqual(told, [
      103,
      ['link: </a>\r\n'],
      200,
      ['x-a: b\xe9\r\n', 'set-cookie: a=1\r\n', 'set-cookie: b=2\r\n'],
      'hel',
      'lo',
      ['grpc-status: 0\r\n'],
    ])
  })

  const ENDS: Readonly<Record<string, readonly [Script, string]>> = {
    END_STREAM: [({ write }, id) => write(data(id, '', END_STREAM)), 'end'],
    'END_STREAM, then NO_ERROR': [({ write }, id) => write(data(id, '', END_STREAM), RST(id, 0)), 'end'],
    'a reset without an error': [({ write }, id) => write(RST(id, 0)), 'broken'],
    'a cancelled stream': [({ write }, id) => write(RST(id, 8)), 'broken'],
    'an internal error': [({ write }, id) => write(RST(id, 2)), 'broken'],
    HTTP_1_1_REQUIRED: [({ write }, id) => write(RST(id, 13)), 'malformed'],
    'the end of its connection': [({ socket }) => socket.end(), 'broken'],
    'a reset of its connection': [({ socket }) => socket.resetAndDestroy(), 'broken'],
    'GOAWAY with an error': [({ write }, id) => write(frameOfNumbers(GOAWAY, 0, id, 2)), 'broken'],
    'bytes that are no frames': [({ socket }) => socket.write('HTTP/1.1 200 OK\r\n\r\n'), 'broken'],
  }
  for (const held of [false, true]) {
    for (const [what, [script, expected]] of Object.entries(ENDS)) {
      it(`is ${expected === 'end' ? 'whole' : 'not whole'} with ${what}${held ? ', held back' : ''}`, async (t) => {
        const { framed, upstream } = await pair(t, ({ write }, id) => write(head(id, OK), data(id, 'part')))
        const sent = send(upstream, { method: 'POST' }, () => !held)
        await until(() => sent.received.chunks.length === 1)
        const [connection] = framed.connections as [FramedConnection]
        script(connection, 1)
        if (held) {
          // The end mostly comes before the resume, but may come after it.
          await new Promise((resolve) => setImmediate(resolve))
          sent.call.resume()
        }
        assert.deepEqual([outcome(await sent.over), bodyOf(sent.received)], [expected, 'part'])
      })
    }
  }

  const BEFORE: Readonly<Record<string, Script>> = {
    'no status': ({ write }, id) => write(head(id, ['x-a', 'b'], END_STREAM)),
    'a status that is not defined': ({ write }, id) => write(head(id, [':status', '600'], END_STREAM)),
    'a field of a connection': ({ write }, id) => write(head(id, [...OK, 'connection', 'close'], END_STREAM)),
    'a name with a capital': ({ write }, id) => write(head(id, [...OK, 'X-A', 'b'], END_STREAM)),
    'two lengths': ({ write }, id) =>
      write(head(id, [...OK, 'content-length', '0', 'content-length', '1'], END_STREAM)),
    'a length that is no number': ({ write }, id) =>
      write(head(id, [...OK, 'content-length', '+1'], END_STREAM)),
    'more fields than are read': ({ write }, id) =>
      write(head(id, [...OK, ...Array.from({ length: 1200 }, () => ['a', '']).flat()], END_STREAM)),
  }
  for (const [what, script] of Object.entries(BEFORE)) {
    it(`with ${what} is malformed`, async (t) => {
      const { received } = await responseTo(t, script)
      assert.deepEqual([received.status, outcome(received)], [undefined, 'malformed'])
    })
  }

  it('after more than 32 interim responses is malformed', async (t) => {
    for (const [count, expected] of [
      [32, 'end'],
      [33, 'malformed'],
    ] as const) {
      const { received } = await responseTo(t, ({ write }, id) => {
        const hints = Array.from({ length: count }, () => head(id, [':status', '103', 'link', '</a>']))
        write(...hints, head(id, OK, END_STREAM))
      })
      assert.deepEqual([received.information.length, outcome(received)], [32, expected])
    }
  })

  it('that is longer or shorter than announced is not whole', async (t) => {
    for (const body of ['1234', '123456']) {
      const { received } = await responseTo(t, ({ write }, id) =>
        write(head(id, [...OK, 'content-length', '5']), data(id, body, END_STREAM)),
      )
      assert.match(`${received.ended} ${outcome(received)}`, /^false (?:malformed|broken)$/)
    }
  })

  it('is passed on without a field whose value has a line feed', async (t) => {
    const { received } = await responseTo(t, ({ write }, id) =>
      write(head(id, [...OK, 'x-a', 'b\nc: d', 'x-b', 'e'], END_STREAM)),
    )
    assert.deepEqual([outcome(received), received.headers], ['end', ['x-b', 'e']])
  })

  it('whose receiver makes a mistake is broken, and other responses go on', async (t) => {
    const { upstream } = await pair(t, ({ write }, id) => write(head(id, OK), data(id, 'x', END_STREAM)))
    const sent = send(upstream, {}, () => {
      throw new Error('a slip')
    })
    const { fault } = await sent.over
    assert.deepEqual([fault?.kind, fault?.cause], ['broken', 'an error in the receiver: Error: a slip'])
    assert.equal(bodyOf(await send(upstream).over), 'x')
  })

  it('to HEAD has a length and no body', async (t) => {
    const script: Script = ({ write }, id) => write(head(id, [...OK, 'content-length', '5'], END_STREAM))
    const { received } = await responseTo(t, script, { method: 'HEAD' })
    assert.deepEqual([outcome(received), bodyOf(received)], ['end', ''])
  })

  for (const [what, behind] of Object.entries<Script>({
    'a body': ({ write }, id) => write(data(id, 'hello', END_STREAM)),
    'a reset': ({ write }, id) => write(RST(id, 2)),
    'the end of its connection': ({ socket }) => socket.end(),
  })) {
    it(`that cannot have a body is whole with its head, though ${what} comes behind it`, async (t) => {
      for (const [method, status] of [
        ['POST', '204'],
        ['GET', '304'],
        ['HEAD', '200'],
      ] as const) {
        const script: Script = (connection, id) => {
          connection.write(head(id, [':status', status]))
          behind(connection, id)
        }
        const { received } = await responseTo(t, script, { method })
        assert.deepEqual([received.status, outcome(received), bodyOf(received)], [Number(status), 'end', ''])
      }
    })
  }

  it('to HEAD, dropped for a retry, does not make the next response whole', async (t) => {
    let asked = 0
    const retry = { statuses: [503], budgetPercent: 100, minPerSecond: 10, attempts: 1 }
    const { upstream } = await pair(
      t,
      ({ write }, id) => {
        asked += 1
        write(asked === 1 ? head(id, [':status', '503'], END_STREAM) : RST(id, 2))
      },
      { policy: { breaker: undefined, retry, slowStartMs: 0 } },
    )
    const received = await send(upstream, { method: 'HEAD' }).over
    assert.deepEqual([received.status, outcome(received), asked], [undefined, 'broken', 3])
  })

  it('is whole when it ends before its request, and more of the request comes while its receiver pauses', async (t) => {
    const { framed, upstream } = await pair(t, ({ write }, id) => write(head(id, OK), data(id, 'first ')))
    const body = new Readable({ read() {} })
    let isHeld = true
    const sent = send(upstream, { method: 'POST', body }, () => !isHeld)
    body.push('a')
    await until(() => sent.received.chunks.length === 1)
    const [connection] = framed.connections as [FramedConnection]
    connection.write(data(1, 'last', END_STREAM), RST(1, 0), frameOfNumbers(PING, 0, 0, 0))
    await until(() => connection.frames.some(({ type, flags }) => type === PING && flags === ACK))
    body.push('b')
    await until(() => body.readableLength === 0)
    isHeld = false
    sent.call.resume()
    assert.deepEqual([outcome(await sent.over), bodyOf(sent.received)], ['end', 'first last'])
    assert.deepEqual([body.isPaused(), body.listenerCount('data')], [true, 0])
  })

  it('is broken by a reset that comes before its head, even if the reset names no error', async (t) => {
    const { received } = await responseTo(t, ({ write }, id) => write(RST(id, 0)))
    assert.deepEqual([received.status, outcome(received)], [undefined, 'broken'])
  })
})

describe('a request over HTTP/2', () => {
  it('has no fields of HTTP/1.1, and te only where trailers are taken', async (t) => {
    const script: Script = ({ write }, id) => write(head(id, OK, END_STREAM))
    const headers = ['host', 'service.test', 'X-A', 'b']
    const { framed } = await responseTo(t, script, { headers, acceptsTrailers: true, upgrade: 'websocket' })
    const [sent] = framed.connections[0]?.frames.filter(({ type }) => type === HEADERS) ?? []
    const text = sent?.payload.toString('latin1') ?? ''
    assert.equal(/upgrade|connection|host/.test(text), false)
    const repeated = [
      'host',
      'a',
      'dnt',
      '1',
      'dnt',
      '1',
      'age',
      '1',
      'age',
      '2',
      'x-\xe9'.slice(0, 2),
      '\xe9',
    ]
    assert.equal((await responseTo(t, script, { headers: repeated })).received.status, 200)
    const refused = await responseTo(t, script, { headers: ['host', 'a', 'connection', 'close'] })
    assert.equal(refused.received.fault?.kind, 'unreachable')
  })
})

describe('a call of gRPC', () => {
  /** Tells whether this response to a call, or to a request that is no call, opens a circuit breaker. */
  async function opens(t: TestContext, script: Script, isDuplex = true): Promise<boolean> {
    const states: string[] = []
    const { upstream } = await pair(t, script, {
      policy: { breaker: FRAGILE, retry: undefined, slowStartMs: 0 },
      onBreaker: (_, state) => states.push(state),
    })
    await send(upstream, { method: 'POST', isDuplex }).over
    return states.includes('open')
  }
  const says = (status: number) => ['grpc-status', String(status)]
  const answer =
    (status: number): Script =>
    ({ write }, id) =>
      write(head(id, OK), data(id, 'a message'), head(id, says(status), END_STREAM))

  it('counts for the circuit breaker by its status in trailers or head, and as failed without one', async (t) => {
    const failed: number[] = []
    for (let status = 0; status <= 17; status++) if (await opens(t, answer(status))) failed.push(status)
    assert.deepEqual(failed, [2, 13, 14, 15, 17])
    assert.equal(await opens(t, ({ write }, id) => write(head(id, [...OK, ...says(14)], END_STREAM))), true)
    assert.equal(await opens(t, ({ write }, id) => write(head(id, [...OK, ...says(5)], END_STREAM))), false)
    assert.equal(await opens(t, ({ write }, id) => write(head(id, OK), data(id, 'x', END_STREAM))), true)
    assert.equal(await opens(t, answer(14), false), false, 'the trailers of another request')
  })
})

describe('a whole response that its receiver holds back', () => {
  /** Sends the first piece of a response and, in the pause, `last`. Then the connection ends. */
  async function heldBack(t: TestContext, last: (id: number) => Buffer[]) {
    const { framed, upstream } = await pair(t, ({ write }, id) => write(head(id, OK), data(id, 'first')))
    let mayGoOn = false
    const sent = send(upstream, {}, () => mayGoOn)
    await until(() => sent.received.chunks.length === 1)
    const [connection] = framed.connections as [FramedConnection]
    connection.write(...last(1))
    const closed = once(connection.socket, 'close')
    connection.socket.end()
    await closed
    // Once a new connection brings bytes, our side of the old one has ended too.
    const next = send(upstream, {}, () => true)
    await until(() => next.received.chunks.length === 1)
    next.call.abort()
    assert.equal(sent.received.chunks.length, 1, 'nothing in the pause')
    return {
      sent,
      goOn: (freely: boolean) => {
        mayGoOn = freely
        sent.call.resume()
      },
    }
  }

  it('is not lost when the connection ends meanwhile', async (t) => {
    const { sent, goOn } = await heldBack(t, (id) => [data(id, 'rest', END_STREAM)])
    goOn(true)
    const { fault, ended, ...received } = await sent.over
    assert.deepEqual([fault, bodyOf({ fault, ended, ...received }), ended], [undefined, 'firstrest', true])
  })

  it('is passed on piece by piece, also when it ends with trailers', async (t) => {
    const { sent, goOn } = await heldBack(t, (id) => [
      data(id, 'a'),
      data(id, 'b'),
      head(id, ['grpc-status', '0'], END_STREAM),
    ])
    for (let pieces = 1; !sent.received.ended; ) {
      goOn(false)
      await until(() => sent.received.ended || sent.received.chunks.length > pieces)
      pieces = sent.received.chunks.length
    }
    const received = await sent.over
    assert.deepEqual([received.fault, bodyOf(received)], [undefined, 'firstab'])
  })

  it('lets the upstream client close when its receiver goes', async (t) => {
    const { sent } = await heldBack(t, (id) => [data(id, 'rest', END_STREAM)])
    sent.call.abort()
    assert.equal(sent.received.ended, false)
  })
})
