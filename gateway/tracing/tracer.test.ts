import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TracingSettings } from '../config/tracing-settings.ts'
import { Field } from '../edge/syntax/field.ts'
import { nanoseconds, type TracedExchange } from './span-text.ts'
import { traceIdOf } from './trace.ts'
import { Tracer } from './tracer.ts'

const NONE_MORE = new Promise<void>(() => {})
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const parent = (flags: string) => [new Field('Traceparent', `00-${TRACE}-00f067aa0ba902b7-${flags}`)]

function tracer(sampling: Partial<TracingSettings['sampling']> = {}) {
  const bodies: string[] = []
  const time = { wallMs: Date.UTC(2030, 0, 1) + 0.5, steadyMs: 1000 }
  const made = new Tracer({
    settings: {
      receiver: {
        endpoint: 'http://r',
        headers: [],
        ca: undefined,
        compression: 'none',
        timeoutMs: 1,
      },
      sampling: { ratio: 1, parents: 'all', ...sampling },
      delayMs: 60_000,
      maxQueue: 1000,
      resource: { 'service.name': 'a "b" é' },
      knownMethods: new Set(['GET']),
    },
    version: '1',
    instanceId: 'i',
    clock: () => time.wallMs,
    steadyClock: () => time.steadyMs,
    reports: { exported: () => {}, dropped: () => {}, fault: () => {} },
    post: async (body) => {
      bodies.push(body.toString())
      return { delivered: true, rejected: 0, reason: '' }
    },
  })
  const sent = async () => {
    await made.close(1000, NONE_MORE)
    return bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans)
  }
  return { made, time, bodies, sent }
}

function exchange(changes: Partial<TracedExchange> = {}): TracedExchange {
  return {
    requestId: 'r',
    method: 'GET',
    recordedPath: '/x',
    host: '[2001:db8::1]:8080',
    address: '192.0.2.1',
    peer: '192.0.2.2',
    startedSteadyMs: 990,
    route: undefined,
    refusalCode: undefined,
    grpcStatus: undefined,
    headers: { userAgent: '' },
    req: { version: '1.1' },
    res: { headersSent: false },
    secure: undefined,
    ...changes,
  }
}

interface Span {
  readonly name: string
  readonly status?: object
  readonly startTimeUnixNano: string
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, string>> }[]
}

function attributesOf({ attributes }: Span): Record<string, string | undefined> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]))
}

describe('Tracer', () => {
  it('samples as the caller did, and others by the ratio', () => {
    const all = tracer({ ratio: 0 }).made
    assert.equal(all.begin(parent('01'), false)?.traceId, TRACE)
    assert.equal(all.begin(parent('00'), false), undefined)
    assert.equal(all.begin([], false), undefined)
    const half = tracer({ ratio: 0.5 }).made
    const taken = Array.from({ length: 2000 }, () => half.begin([], false)).filter(
      (each) => each !== undefined,
    )
    assert.ok(taken.length > 850 && taken.length < 1150, String(taken.length))
    assert.ok(taken.every(({ traceId }) => Number.parseInt(traceId.slice(-12, -11), 16) < 8))
    assert.equal(new Set(taken.map(({ traceId }) => traceId)).size, taken.length)
  })

  it('obeys only the sampling of callers that it trusts, and continues the traces of other callers', () => {
    const trusted = tracer({ ratio: 1, parents: 'trusted' }).made
    assert.equal(trusted.begin(parent('00'), true), undefined)
    assert.equal(trusted.begin(parent('00'), false)?.traceId, TRACE)
    const none = tracer({ ratio: 0, parents: 'none' }).made
    assert.equal(none.begin(parent('01'), true), undefined)
  })

  it('begins a trace when the caller names no valid trace, or two', () => {
    const { made } = tracer()
    const [good] = parent('01') as [Field]
    for (const fields of [[], [good, good], [new Field('traceparent', 'x')]]) {
      const trace = made.begin([...fields, new Field('tracestate', 'a=1')], false)
      assert.notEqual(trace?.traceId, TRACE)
      assert.deepEqual([trace?.parentId, trace?.tracestates], [undefined, []])
    }
  })

  it('continues nothing that Connection names, because that is for this hop alone', () => {
    const { made } = tracer()
    const state = new Field('tracestate', 'a=1')
    const begun = (named: string) =>
      made.begin([...parent('01'), state, new Field('Connection', `close, ${named}`)], false)
    const fresh = begun('TraceParent')
    assert.notEqual(fresh?.traceId, TRACE)
    assert.deepEqual([fresh?.parentId, fresh?.tracestates], [undefined, []])
    const stateless = begun('tracestate')
    assert.deepEqual([stateless?.traceId, stateless?.tracestates], [TRACE, []])
  })

  it('gives each attempt a traceparent of its own, and passes the random flag and the state on', () => {
    const state = new Field('tracestate', 'a=1')
    const trace = tracer().made.begin([...parent('ff'), state], false)
    const fields = [new Field('host', 'h')]
    trace?.addTo(fields)
    assert.deepEqual([trace?.began('http://a'), fields.length, fields[2]], [false, 3, state])
    const first = fields[1]?.value
    assert.equal(trace?.began('http://b'), true)
    assert.equal(first, `00-${TRACE}-${trace?.attempts[0]?.spanId}-03`)
    assert.equal(fields[1]?.value, `00-${TRACE}-${trace?.attempts[1]?.spanId}-03`)
  })

  it('writes times of the wall clock, also after it was set', async () => {
    const { made, time, sent } = tracer()
    const finish = () => {
      const trace = made.begin([], false)
      if (trace !== undefined) made.finish(trace, exchange(), 200)
    }
    finish()
    time.wallMs += 3_600_000
    finish()
    const starts = (await sent()).map(({ startTimeUnixNano }: Span) => BigInt(startTimeUnixNano))
    assert.equal(starts[0], BigInt(Date.UTC(2030, 0, 1)) * 1_000_000n - 9_500_000n)
    assert.equal((starts[1] ?? 0n) - (starts[0] ?? 0n), 3_600_000_000_000n)
    assert.equal(nanoseconds(1_000_000_000_001.5), '1000000000001500000')
  })

  it('bounds what callers make up, and keeps their text out of names', async () => {
    const { made, sent } = tracer()
    const [long] = parent('01') as [Field]
    const trace = made.begin([long, new Field('tracestate', 'a'.repeat(600))], false)
    const made_up = exchange({
      method: 'X'.repeat(999),
      recordedPath: `/${'p'.repeat(9999)}`,
      headers: { userAgent: '"\u0001'.repeat(999) },
    })
    if (trace !== undefined) made.finish(trace, made_up, 200)
    const [span] = await sent()
    const found = attributesOf(span)
    assert.deepEqual(
      [span.name, span.traceState, found['http.request.method']],
      ['HTTP', undefined, '_OTHER'],
    )
    assert.deepEqual(
      ['http.request.method_original', 'url.path', 'user_agent.original'].map((key) => found[key]?.length),
      [64, 1024, 256],
    )
    assert.deepEqual([found['server.address'], found['server.port']], ['2001:db8::1', '8080'])
  })

  it('cuts no letter in two, because a collector would then refuse all spans of the batch', async () => {
    const { made, sent } = tracer()
    const trace = made.begin([], false)
    const userAgent = `${'x'.repeat(255)}\u{1f600}`
    if (trace !== undefined) made.finish(trace, exchange({ headers: { userAgent } }), 200)
    const [span] = await sent()
    assert.equal(attributesOf(span)['user_agent.original'], `${'x'.repeat(255)}\ufffd`)
  })

  it('calls an error what failed on our side, and not what the caller did wrong', async () => {
    const { made, sent } = tracer()
    const ends = [
      [exchange(), 404],
      [exchange({ refusalCode: 'invalid_token' }), 401],
      [exchange({ refusalCode: 'overloaded' }), 503],
      [exchange({ refusalCode: 'request_timeout', res: { headersSent: true } }), 408],
      [exchange({ recordedPath: '-', method: '-', host: '' }), 499],
    ] as const
    for (const [over, statusCode] of ends) {
      const trace = made.begin([], false)
      if (trace !== undefined) made.finish(trace, over, statusCode)
    }
    const spans: Span[] = await sent()
    assert.deepEqual(
      spans.map((span) => [
        attributesOf(span)['error.type'],
        attributesOf(span)['http.response.status_code'],
        span.status,
      ]),
      [
        [undefined, '404', undefined],
        [undefined, '401', undefined],
        ['overloaded', '503', { code: 2 }],
        ['request_timeout', undefined, { code: 2 }],
        ['client_disconnected', undefined, { code: 2 }],
      ],
    )
  })

  it('tells the status of a gRPC call: the client span counts all but OK as errors, the server span only faults of the server', async () => {
    const { made, sent } = tracer()
    const cases: readonly [Partial<TracedExchange>, number][] = [
      [{ grpcStatus: 0 }, 200],
      [{ grpcStatus: 5 }, 200],
      [{ grpcStatus: 14 }, 200],
      [{ grpcStatus: 12 }, 200],
      [{ grpcStatus: 16, refusalCode: 'missing_token' }, 401],
      [{ grpcStatus: 1 }, 499],
    ]
    for (const [facts, statusCode] of cases) {
      const trace = made.begin([], false)
      assert.ok(trace !== undefined)
      if (facts.refusalCode === undefined) {
        trace.began('h2c://service:50051')
        if (statusCode === 200) trace.responded(200)
      }
      made.finish(trace, exchange({ recordedPath: '/demo.Notes/One', ...facts }), statusCode)
    }
    const rows = ((await sent()) as Span[]).map((span) => {
      const found = attributesOf(span)
      const isOfGrpc = found['rpc.system.name'] === 'grpc'
      return [isOfGrpc, found['rpc.response.status_code'], found['rpc.method'], found['error.type']]
    })
    const known = 'demo.Notes/One'
    assert.deepEqual(rows, [
      [true, 'OK', known, undefined],
      [true, 'OK', known, undefined],
      [true, 'NOT_FOUND', known, undefined],
      [true, 'NOT_FOUND', known, 'NOT_FOUND'],
      [true, 'UNAVAILABLE', known, 'UNAVAILABLE'],
      [true, 'UNAVAILABLE', known, 'UNAVAILABLE'],
      [true, 'UNIMPLEMENTED', '_OTHER', 'UNIMPLEMENTED'],
      [true, 'UNIMPLEMENTED', '_OTHER', 'UNIMPLEMENTED'],
      [true, 'UNAUTHENTICATED', '_OTHER', undefined],
      [true, 'CANCELLED', '_OTHER', 'client_disconnected'],
      [false, undefined, undefined, 'client_disconnected'],
    ])
  })
})

describe('traceIdOf', () => {
  it('is the id of the spans, else the id sent upstream, else the id of the caller', () => {
    const other = `00-${'1'.repeat(32)}-00f067aa0ba902b7-00`
    const req = { fields: parent('00') }
    assert.equal(traceIdOf({ req, trace: { traceId: 'own' }, traceparent: other }), 'own')
    assert.equal(traceIdOf({ req, trace: undefined, traceparent: other }), '1'.repeat(32))
    assert.equal(traceIdOf({ req, trace: undefined, traceparent: undefined }), TRACE)
    assert.equal(traceIdOf({ req: { fields: [] }, trace: undefined, traceparent: undefined }), undefined)
    const forThisHop = { fields: [...parent('00'), new Field('Connection', 'traceparent')] }
    assert.equal(traceIdOf({ req: forThisHop, trace: undefined, traceparent: undefined }), undefined)
  })
})
