import assert from 'node:assert/strict'
import { writeSync } from 'node:fs'
import { Readable } from 'node:stream'
import { describe, it, type TestContext } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Commit } from '../../audit/commit/commit.ts'
import type { IdempotencyTerms } from '../../config/settings.ts'
import type { WaitingBody } from '../../edge/bodies/body-room.ts'
import { Field } from '../../edge/syntax/field.ts'
import type { Gateway } from '../../gateway.ts'
import { openTable, temporaryDirectory } from '../../idempotency/key-table.test-support.ts'
import type { Begun, KeyKeeper } from '../../idempotency/key-table.ts'
import type { Principal } from '../../principal.ts'
import { type PendingRefusal, type Refusal, refusal } from '../../refusals.ts'
import type { Write } from '../../storage/append-log.ts'
import type { UpstreamFaultKind } from '../../upstream/upstream-client.ts'
import { readWholeBody } from '../body/whole-body.ts'
import { forward } from '../forward.ts'
import type { Forwarding } from '../forwarding/forwarding.ts'
import { closeAbandoned } from '../open.ts'
import { record } from '../record.ts'
import { refuse } from '../response/refuse.ts'
import { makeExchange, makeGateway, makePrincipal, makeRoute } from '../stage.test-support.ts'
import { takePermit } from '../take-permit.ts'
import { idempotency } from './idempotency.ts'

const realWrite = writeSync as Write
const TERMS: IdempotencyTerms = {
  required: true,
  header: 'idempotency-key',
  maxKeyLength: 255,
  keepMs: 86_400_000,
  maxResponseBytes: 20,
  maxRequestBytes: 50,
  maxKeys: 100,
  resolves: false,
  onStoreFailure: 'deny',
}

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly query?: string
  readonly host?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly requestId?: string
  readonly principal?: Partial<Principal>
  /** The upstream has begun to write the request. */
  readonly isSent?: boolean
}

/** A gateway with one row, whose upstream the test plays. */
function served(t: TestContext, terms: Partial<IdempotencyTerms> = {}, options = {}) {
  const opened = openTable(temporaryDirectory(t), options)
  const made = makeGateway({ idempotency: opened.table })
  const { gateway } = made
  /** Does what the pipeline does from this stage on. */
  const ask = (asked: Asked = {}) => {
    const { headers = { 'Idempotency-Key': 'k' }, body = '{}', isSent = true } = asked
    const { exchange, res } = makeExchange({ method: asked.method ?? 'POST', headers })
    Object.assign(exchange, { requestId: asked.requestId ?? 'request-1' })
    exchange.path = asked.path ?? '/api/x'
    exchange.query = asked.query ?? ''
    exchange.host = asked.host ?? 'api.example'
    exchange.bufferedBody = Buffer.from(body)
    exchange.principal = makePrincipal(asked.principal)
    let aborted = 0
    let resumed = 0
    const call = {
      ...{ resume: () => resumed++, abort: () => aborted++ },
      ...{ sent: isSent, upstream: 'http://up' },
    }
    const client = { send: () => call, speaksHttp2: false }
    exchange.route = makeRoute({ idempotency: { ...TERMS, ...terms }, client })
    record(gateway, exchange)
    opened.table.flush()
    const outcome = idempotency(gateway, exchange) as Refusal | PendingRefusal | undefined
    let refused = outcome !== undefined && 'code' in outcome ? outcome : undefined
    if (outcome !== undefined && 'whenKnown' in outcome)
      outcome.whenKnown((known) => {
        refused = known as Refusal | undefined
      })
    opened.table.flush()
    if (refused !== undefined) refuse(gateway, exchange, refused)
    return {
      exchange,
      res,
      refused,
      aborted: () => aborted,
      resumed: () => resumed,
      /** @returns the forwarding, which the upstream would call */
      send: () => {
        takePermit(gateway, exchange)
        forward(gateway, exchange)
        return exchange.forwarding as Forwarding
      },
    }
  }
  /** The first request of the key, with a whole response. */
  const answered = (status: number, headers: Readonly<Record<string, string>> = {}, body = 'done') => {
    const first = ask({ requestId: 'first' })
    const forwarding = first.send()
    forwarding.head(status, fieldsOf({ 'Content-Length': String(body.length), ...headers }))
    if (body !== '') forwarding.data(Buffer.from(body))
    forwarding.end()
    opened.table.flush()
    return first
  }
  return { ...made, ...opened, gatewayTime: made.time, ask, answered }
}

function fieldsOf(headers: Readonly<Record<string, string>>): Field[] {
  return Object.entries(headers).map(([name, value]) => new Field(name, value))
}

describe('the first request with a key', () => {
  it('is never begun when the gateway refuses it before it is sent', (t) => {
    const { ask, gateway } = served(t)
    const first = ask()
    refuse(gateway, first.exchange, refusal('limit_exceeded'))
    assert.equal(ask().refused, undefined)
    assert.equal(ask().refused?.code, 'idempotency_in_progress')
  })

  it('is never begun when the service cannot be reached', (t) => {
    const { ask } = served(t)
    ask({ isSent: false }).send().fault({ kind: 'unreachable', cause: 'refused' })
    assert.equal(ask().refused, undefined)
  })

  for (const [status, headers] of [[408], [425], [429], [503, { 'Retry-After': '1' }]] as const)
    it(`is never begun when the service says that it has done nothing: ${status}`, (t) => {
      const { ask, answered } = served(t)
      const first = answered(status, headers)
      assert.equal(first.res.status, status)
      assert.equal(ask().refused, undefined)
    })

  for (const status of [200, 201, 204, 302, 400, 404, 409, 422, 501])
    it(`is done with any other whole response below 500, and 501: ${status}`, (t) => {
      const { ask, answered } = served(t)
      const body = status === 204 ? '' : 'done'
      const first = answered(status, {}, body)
      const next = ask({ requestId: 'next' })
      assert.deepEqual([next.res.status, next.res.body], [status, body])
      assert.equal(first.res.status, status)
    })

  for (const [status, headers] of [
    [500],
    [502],
    [503],
    [503, { 'Retry-After': '' }],
    [504],
    [505],
    [599],
  ] as const)
    it(`has an unknown outcome with another 5xx: ${status} ${JSON.stringify(headers ?? {})}`, (t) => {
      const { ask, answered } = served(t)
      assert.equal(answered(status, headers).res.status, status)
      const { refused } = ask({ requestId: 'second' })
      assert.equal(refused?.code, 'idempotency_unknown')
      assert.equal(
        refused?.cause,
        'it is unknown whether the request first of userId "user-1", clientId "app-1" took effect',
      )
    })

  for (const kind of ['broken', 'timeout', 'malformed', 'unread'] satisfies UpstreamFaultKind[])
    it(`has an unknown outcome when its response is not whole: ${kind}`, (t) => {
      const { ask } = served(t)
      ask().send().fault({ kind, cause: 'a test' })
      assert.equal(ask().refused?.code, 'idempotency_unknown')
      const headers = { 'Idempotency-Key': 'of-a-response-that-has-begun' }
      const forwarding = ask({ headers }).send()
      forwarding.head(200, fieldsOf({ 'Content-Length': '9' }))
      forwarding.data(Buffer.from('a part'))
      forwarding.fault({ kind, cause: 'a test' })
      assert.equal(ask({ headers }).refused?.code, 'idempotency_unknown')
    })

  it('is sent again when its outcome is unknown and the service resolves keys itself', (t) => {
    const { ask, answered } = served(t, { resolves: true })
    answered(500)
    assert.equal(ask().refused, undefined)
  })
})

describe('the next request with a key', () => {
  it('needs a key where the row says so', (t) => {
    const { ask, measured } = served(t)
    assert.deepEqual(
      [ask({ headers: {} }).refused?.code, ask({ headers: {} }).res.status],
      ['idempotency_key_missing', 400],
    )
    assert.ok(measured.includes('gateway_idempotency_total /api/* missing'))
    const lenient = served(t, { required: false })
    assert.equal(lenient.ask({ headers: {} }).refused, undefined)
    assert.equal(lenient.ask({ headers: {} }).exchange.keyed, undefined)
  })

  it('needs no key where its method is safe', (t) => {
    const { ask } = served(t)
    assert.equal(ask({ method: 'GET', headers: {} }).refused, undefined)
    for (const method of ['PATCH', 'PUT', 'DELETE'])
      assert.equal(ask({ method, headers: {} }).refused?.code, 'idempotency_key_missing')
  })

  it('is refused when its key cannot be read', (t) => {
    const { ask, measured } = served(t, { header: 'x-idempotency-key', maxKeyLength: 40 })
    for (const key of ['a b', 'a,b', '', 'a'.repeat(41)])
      assert.equal(ask({ headers: { 'X-Idempotency-Key': key } }).refused?.code, 'idempotency_key_invalid')
    assert.ok(measured.includes('gateway_idempotency_total /api/* invalid'))
    const twice = ask({ headers: { 'X-Idempotency-Key': 'a', 'x-idempotency-key': 'a' } })
    assert.deepEqual([twice.refused?.code, twice.res.status], ['invalid_header', 400])
  })

  it('is refused with another method, target, content type or body', (t) => {
    const { ask, answered, measured } = served(t)
    answered(200)
    for (const other of [
      { method: 'PUT' },
      { path: '/api/y' },
      { query: '?a=1' },
      { host: 'other.example' },
      { headers: { 'Idempotency-Key': 'k', 'Content-Type': 'text/plain' } },
      { headers: { 'Idempotency-Key': 'k', 'Content-Encoding': 'gzip' } },
      { headers: { 'Idempotency-Key': 'k', 'Content-Encoding': 'gzip' }, body: gzipSync('{}').toString() },
      { body: '{ }' },
    ] satisfies Asked[]) {
      const { refused, res } = ask(other)
      assert.deepEqual([refused?.code, res.status], ['idempotency_key_reused', 422], JSON.stringify(other))
    }
    assert.ok(measured.includes('gateway_idempotency_total /api/* reused'))
    const same = ask({ headers: { 'Idempotency-Key': '"k"' }, host: 'API.example:8443' })
    assert.deepEqual([same.refused, same.res.body], [undefined, 'done'])
  })

  it('is asked to come again while the first is in progress', (t) => {
    const { ask, measured } = served(t)
    ask()
    const { refused, res } = ask()
    assert.deepEqual([refused?.code, res.status], ['idempotency_in_progress', 409])
    assert.match(res.lines, /^Retry-After: 1\r$/m)
    assert.ok(measured.includes('gateway_idempotency_total /api/* in_progress'))
  })

  it('is refused when what became of the first is unknown', (t) => {
    const { ask, answered, measured, gateway } = served(t)
    answered(500)
    assert.equal(ask().res.status, 409)
    assert.ok(measured.includes('gateway_idempotency_total /api/* unknown'))
    const cause = gateway.metrics.causes.get('gateway_idempotency_total /api/* unknown')
    assert.match(
      cause ?? '',
      /^it is unknown whether the request \S+ of userId "user-1", clientId "app-1" took effect$/,
    )
  })

  it('gets the first response again, with some fields of its own', (t) => {
    const { ask, answered, measured, trail } = served(t)
    answered(201, {
      Location: '/api/x/1',
      'Content-Type': 'application/json',
      ETag: '"1"',
      'Set-Cookie': 'a=b',
      Date: 'Tue, 01 Jan 2030 00:00:00 GMT',
      'DPoP-Nonce': 'n',
      'X-Revoke-Session': 'sid',
      RateLimit: '"a";r=1;t=1',
      'RateLimit-Policy': '"a";q=1;w=1',
      'X-RateLimit-Remaining': '3',
      'X-Request-ID': 'of the service',
      Connection: 'X-Hop',
      'X-Hop': 'here',
    })
    const { res, exchange } = ask({ requestId: 'next' })
    assert.deepEqual([res.status, res.body, res.calls.at(-1)], [201, 'done', 'end'])
    const names = res.lines.split('\r\n').map((line) => line.split(':')[0]?.toLowerCase())
    for (const name of ['location', 'content-type', 'etag', 'content-length'])
      assert.ok(names.includes(name), name)
    for (const name of [
      'set-cookie',
      'date',
      'dpop-nonce',
      'x-revoke-session',
      'ratelimit',
      'ratelimit-policy',
      'x-ratelimit-remaining',
      'connection',
      'x-hop',
    ])
      assert.equal(names.includes(name), false, name)
    assert.match(res.lines, /^Idempotency-Replayed: true\r$/m)
    assert.deepEqual(res.lines.match(/^X-Request-ID: .*$/gm), ['X-Request-ID: next\r'.trimEnd()])
    assert.equal(exchange.permitHolder, undefined)
    assert.deepEqual(trail.records.at(-1), {
      ...trail.records.at(-1),
      ...{ type: 'API_RESPONSE', requestId: 'next', statusCode: 201, replayOf: 'first' },
    })
    assert.ok(measured.includes('gateway_idempotency_total /api/* replayed'))
  })

  it('gets no response that another caller was given', (t) => {
    const { ask, answered } = served(t)
    answered(200)
    for (const principal of [{ subject: 'user-2', key: 'user-2' }, { client: 'app-2' }]) {
      const other = ask({ principal })
      assert.deepEqual([other.refused, other.res.calls], [undefined, []])
    }
  })

  it('is told the status of a first response that was too long to keep', (t) => {
    const { ask, answered, measured } = served(t)
    const first = answered(201, {}, 'a'.repeat(21))
    assert.equal(first.res.body.length, 21)
    const { refused, res } = ask()
    assert.deepEqual([refused?.code, res.status], ['idempotency_response_not_kept', 409])
    assert.match(res.body, /status 201/)
    assert.ok(measured.includes('gateway_idempotency_total /api/* not_kept'))
  })

  it('is refused when its caller has as many keys as it may', (t) => {
    const { ask, measured } = served(t, { maxKeys: 1 })
    ask()
    const { refused, res } = ask({ headers: { 'Idempotency-Key': 'another' } })
    assert.deepEqual([refused?.code, res.status], ['idempotency_too_many_keys', 429])
    assert.ok(measured.includes('gateway_idempotency_total /api/* too_many'))
  })

  it('is refused while keys cannot be kept', (t) => {
    const write = () => {
      throw new Error('ENOSPC')
    }
    const { ask, measured } = served(t, {}, { write })
    const { refused, res } = ask()
    assert.deepEqual([refused?.code, res.status], ['idempotency_unavailable', 503])
    assert.match(res.lines, /^Retry-After: 5\r$/m)
    assert.ok(measured.includes('gateway_idempotency_total /api/* unavailable'))
  })

  it('is refused with 413 when its body is longer than the row keeps in memory', (t) => {
    const { ask } = served(t)
    assert.equal(ask({ body: 'a'.repeat(51) }).refused?.code, 'body_too_large')
  })
})

describe('a client that goes away', () => {
  it('cancels nothing: the response is awaited and kept, and its permit with it', (t) => {
    const { ask, gateway, trail } = served(t)
    const first = ask({ requestId: 'first' })
    const forwarding = first.send()
    closeAbandoned(gateway, first.exchange)
    assert.equal(trail.records.at(-1)?.statusCode, 499)
    assert.deepEqual([first.aborted(), gateway.load.orphans.size], [0, 1])
    assert.equal(ask().refused?.code, 'idempotency_in_progress')
    forwarding.head(201, fieldsOf({ 'Content-Length': '4' }))
    forwarding.data(Buffer.from('do'))
    forwarding.data(Buffer.from('ne'))
    forwarding.end()
    assert.deepEqual([gateway.load.orphans.size, first.aborted()], [0, 0])
    const next = ask()
    assert.deepEqual([next.res.status, next.res.body], [201, 'done'])
  })

  it('cancels nothing after the head of the response either', (t) => {
    const { ask, gateway } = served(t)
    const first = ask()
    const forwarding = first.send()
    forwarding.head(200, fieldsOf({}))
    forwarding.data(Buffer.from('do'))
    closeAbandoned(gateway, first.exchange)
    forwarding.data(Buffer.from('ne'))
    forwarding.end()
    assert.equal(ask().res.body, 'done')
  })

  it('keeps the place of its body in memory until the response is whole', async (t) => {
    const { ask, gateway } = served(t)
    const bodies: WaitingBody[] = []
    Object.assign(gateway.load, {
      bodyRoom: { take: () => true, release: (body: WaitingBody) => bodies.push(body) },
    })
    for (const isAwaited of [true, false]) {
      const { exchange, res, send } = ask({ headers: { 'Idempotency-Key': `${isAwaited}` } })
      await readWholeBody(gateway, exchange, { owner: 'user-1', source: Readable.from([Buffer.from('{}')]) })
      const forwarding = send()
      if (isAwaited) closeAbandoned(gateway, exchange)
      else forwarding.fault({ kind: 'broken', cause: 'a test' })
      res.close()
      assert.equal(bodies.length, isAwaited ? 0 : 2)
      if (!isAwaited) continue
      forwarding.head(201, fieldsOf({ 'Content-Length': '0' }))
      forwarding.end()
      assert.equal(bodies.length, 1)
    }
  })

  it('cancels nothing when its session ends while the response comes', (t) => {
    const { ask, gateway, gatewayTime, trail } = served(t)
    const first = ask({ principal: { sessionId: 's1' } as Partial<Principal> })
    const forwarding = first.send()
    forwarding.head(200, fieldsOf({}))
    forwarding.data(Buffer.from('do'))
    first.res.headersSent = true
    Object.assign(gateway.revocations, { isRevoked: () => true })
    gatewayTime.nowMs += 1000
    assert.equal(forwarding.data(Buffer.from('n')), true)
    assert.deepEqual([first.res.calls.at(-1), trail.records.at(-1)?.statusCode], ['breakOff', 401])
    closeAbandoned(gateway, first.exchange)
    forwarding.data(Buffer.from('e'))
    forwarding.end()
    assert.deepEqual([first.aborted(), gateway.load.orphans.size], [0, 0])
    Object.assign(gateway.revocations, { isRevoked: () => false })
    assert.equal(ask().res.body, 'done')
  })

  it('does not slow the response down any more', (t) => {
    const { ask, gateway } = served(t)
    const first = ask()
    first.res.write = () => false
    const forwarding = first.send()
    forwarding.head(200, fieldsOf({}))
    assert.equal(forwarding.data(Buffer.alloc(20)), true, 'as long as it is kept')
    assert.equal(forwarding.data(Buffer.alloc(1)), false)
    closeAbandoned(gateway, first.exchange)
    assert.equal(first.resumed(), 1)
    assert.equal(forwarding.data(Buffer.alloc(1)), true)
    forwarding.end()
    assert.equal(ask().refused?.code, 'idempotency_response_not_kept')
  })

  it('leaves the outcome unknown when the response then breaks off, or the gateway ends', (t) => {
    for (const end of ['fault', 'abort'] as const) {
      const { ask, gateway } = served(t)
      const first = ask()
      const forwarding = first.send()
      closeAbandoned(gateway, first.exchange)
      if (end === 'abort') forwarding.abort()
      else forwarding.fault({ kind: 'broken', cause: 'a test' })
      assert.equal(ask().refused?.code, 'idempotency_unknown')
      assert.equal(gateway.load.orphans.size, 0)
    }
  })

  it('leaves the key free when its request has not been sent', (t) => {
    const { ask, gateway } = served(t)
    const first = ask()
    closeAbandoned(gateway, first.exchange)
    assert.equal(ask().refused, undefined)
  })
})

it('requests of one turn begin by one write, before the next turn', async (t) => {
  const writes: string[] = []
  const write = (fd: number, bytes: string | Uint8Array) => {
    if (String(bytes).includes(' begun ')) writes.push(String(bytes))
    return realWrite(fd, bytes)
  }
  const { ask, gateway, trail } = served(t, {}, { write })
  ask()
  trail.commit = new Commit()
  writes.length = 0
  const known: unknown[] = []
  for (const key of ['a', 'b']) {
    const { exchange } = makeExchange({ method: 'POST', headers: { 'Idempotency-Key': key } })
    exchange.bufferedBody = Buffer.from('{}')
    exchange.principal = makePrincipal()
    exchange.route = makeRoute({ idempotency: TERMS })
    const recorded = record(gateway, exchange) as PendingRefusal
    recorded.whenKnown(() =>
      (idempotency(gateway, exchange) as PendingRefusal).whenKnown((no) => known.push(no)),
    )
  }
  const next = new Promise((resolve) => setImmediate(resolve))
  trail.commit.finish(undefined)
  assert.deepEqual([known, writes], [[], []])
  await new Promise((resolve) => process.nextTick(resolve))
  assert.deepEqual([known, writes.length], [[undefined, undefined], 1])
  await next
})

describe('the last byte of a response', () => {
  it('waits until the outcome is on the disk', (t) => {
    const syncs: ((error: Error | null) => void)[] = []
    const sync = ((_fd: number, done: (error: Error | null) => void) => syncs.push(done)) as never
    for (const error of [null, new Error('EIO')]) {
      const { ask } = served(t, {}, { syncs: true, sync })
      const first = ask()
      syncs.shift()?.(null)
      const forwarding = first.send()
      forwarding.head(200, fieldsOf({ 'Content-Length': '4' }))
      forwarding.data(Buffer.from('done'))
      assert.ok(first.res.calls.includes('hold'))
      assert.equal(ask().refused?.code, 'idempotency_in_progress')
      syncs.shift()?.(error)
      assert.equal(first.res.calls.includes('breakOff'), error !== null)
      assert.equal(ask().refused?.code, error === null ? undefined : 'idempotency_unknown')
    }
  })

  it('is not sent when its outcome cannot be written', (t) => {
    const disk = { isFull: false }
    const write = (fd: number, bytes: string | Uint8Array) => {
      if (disk.isFull) throw new Error('EIO')
      return realWrite(fd, bytes)
    }
    const { ask, table } = served(t, {}, { write })
    const first = ask()
    const forwarding = first.send()
    disk.isFull = true
    forwarding.head(200, fieldsOf({ 'Content-Length': '4' }))
    forwarding.data(Buffer.from('done'))
    table.flush()
    assert.ok(first.res.calls.includes('breakOff'))
    assert.equal(first.res.calls.includes('release'), false)
    assert.equal(ask().refused?.code, 'idempotency_unknown')
  })
})

it('a row without idempotency costs nothing, not even a look at the headers', () => {
  const { exchange } = makeExchange({ method: 'POST' })
  exchange.route = makeRoute()
  assert.equal(idempotency({} as Gateway, exchange), undefined)
})

describe('an outcome that is waited for', () => {
  function late(begun: Begun<unknown>) {
    const { promise, resolve: tell } = Promise.withResolvers<(begun: Begun<unknown>) => void>()
    const finished: unknown[] = []
    const keeper: KeyKeeper = {
      begin: (_request, run) => tell(run),
      finish: (_held, finish) => void finished.push(finish),
      rekey: () => undefined,
      close: () => undefined,
    }
    const { gateway } = makeGateway({ idempotency: keeper })
    const { exchange, res } = makeExchange({ method: 'POST', headers: { 'Idempotency-Key': 'k' } })
    exchange.bufferedBody = Buffer.from('{}')
    exchange.principal = makePrincipal()
    exchange.route = makeRoute({ idempotency: TERMS })
    const known: unknown[] = []
    const pending = idempotency(gateway, exchange) as PendingRefusal
    pending.whenKnown((refused) => known.push(refused))
    const come = async () => (await promise)(begun)
    return { exchange, res, known, finished, come }
  }
  const response = { status: 201, fields: '', body: 'done' }
  const done = { outcome: 'done', requestId: 'first', response } as const

  it('is replayed to a client that is still there', async () => {
    const { exchange, res, known, come } = late(done)
    await come()
    assert.deepEqual([exchange.closed, res.status, res.body, known], [true, 201, 'done', [undefined]])
  })

  it('is not replayed to a client that has gone, and frees the key that this client began', async () => {
    const { exchange, res, known, come } = late(done)
    exchange.closed = true
    await come()
    assert.deepEqual([res.body, known], ['', [undefined]])
    const begun = late({ outcome: 'begun', held: {} })
    begun.exchange.closed = true
    await begun.come()
    assert.deepEqual([begun.finished, begun.known], [['free'], [undefined]])
  })

  it('fails only its own request when it cannot be replayed', async () => {
    const { known, come } = late({ ...done, response: { ...response, fields: undefined as never } })
    await come()
    assert.ok(known[0] instanceof Error)
  })
})
