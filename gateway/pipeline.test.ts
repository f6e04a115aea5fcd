import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Commit } from './audit/commit/commit.ts'
import type { Gateway } from './gateway.ts'
import { PendingTake } from './limits/limiter.ts'
import { type LimitRow, LimitTable } from './limits/table/limit-table.ts'
import { handle, handleUnreadable } from './pipeline.ts'
import { refusal } from './refusals.ts'
import { giveUp } from './stages/response/refuse.ts'
import { makeArrival, makeGateway, makeRoute } from './stages/stage.test-support.ts'

type Parts = Parameters<typeof makeGateway>[0]
type Request = Parameters<typeof makeArrival>[0]

function pipeline(parts: Parts = {}, request: Request = {}) {
  const sent: string[] = []
  let aborted = 0
  const send = ({ target }: { readonly target: string }) => {
    sent.push(target)
    return { resume: () => {}, abort: () => aborted++, sent: true, upstream: 'http://up' }
  }
  const { routes = [makeRoute()] } = parts
  const made = makeGateway({
    ...parts,
    routes: routes.map((route) => ({ ...route, client: { send, speaksHttp2: false } })),
  })
  const { arrival, res, completeBody } = makeArrival(request)
  const types = () =>
    made.trail.records.map(({ type, statusCode }) => [type, statusCode].filter(Boolean).join(' '))
  return { ...made, arrival, res, completeBody, sent, types, aborted: () => aborted }
}

const TOO_MANY: Gateway['addressRate'] = {
  take: () => ({ allowed: false, remaining: 0, resetSeconds: 1 }),
  limitTo: () => {},
}

const LIMIT: LimitRow = {
  name: 'x',
  path: '/api/*',
  methods: undefined,
  limit: 3,
  window: '1m',
  windowMs: 60_000,
  purpose: 'x',
  per: 'caller',
  mode: 'enforce',
  cost: 1,
  onStoreFailure: 'local',
}

describe('handle', () => {
  it('records a request, and forwards it when every stage lets it through', () => {
    const { gateway, arrival, res, sent, types } = pipeline({}, { target: '/api/x?a' })
    const exchange = handle(gateway, arrival)
    assert.deepEqual([sent, types(), res.calls], [['/api/x?a'], ['API_REQUEST'], []])
    assert.deepEqual([exchange.closed, gateway.load.inFlight.size, gateway.load.permits.taken], [false, 1, 1])
  })

  it('stops at the first stage that refuses, with a pair of records', () => {
    const auth = new Set(['bearer'] as const)
    const { gateway, arrival, res, sent, types } = pipeline({ routes: [makeRoute({ auth })] })
    const exchange = handle(gateway, arrival)
    assert.deepEqual([sent, res.status, exchange.refusalCode], [[], 401, 'missing_token'])
    assert.deepEqual(types(), ['API_REQUEST', 'API_RESPONSE 401'])
    assert.deepEqual([gateway.load.inFlight.size, gateway.load.permits.taken], [0, 0])
  })

  it('asks for the address rate first, then for admission', () => {
    const limited = pipeline({ addressRate: TOO_MANY }, { method: 'TRACE' })
    assert.equal(handle(limited.gateway, limited.arrival).refusalCode, 'address_rate_exceeded')
    const admitted = pipeline({}, { method: 'TRACE', target: '/nowhere' })
    assert.equal(handle(admitted.gateway, admitted.arrival).refusalCode, 'method_not_allowed')
  })

  it('refuses a request with 500 when the reply of the shared store cannot be used', () => {
    const table = new LimitTable([LIMIT])
    const unreadable = {
      get allowed(): boolean {
        throw new Error('a bug')
      },
      remaining: 0,
      resetSeconds: 1,
    }
    for (const outcome of [new Error('nobody could decide'), unreadable]) {
      const asked: PendingTake[] = []
      const { gateway, arrival, res, sent, types } = pipeline({
        limiter: {
          find: table.find.bind(table),
          close: () => {},
          ask: (row) => {
            const pending = new PendingTake(row)
            asked.push(pending)
            return pending
          },
        },
      })
      const exchange = handle(gateway, arrival)
      assert.deepEqual([asked.length, exchange.closed], [1, false])
      asked[0]?.settle(outcome)
      assert.deepEqual([sent, res.status, exchange.refusalCode], [[], 500, 'internal_fault'])
      assert.deepEqual(types(), ['API_REQUEST', 'API_RESPONSE 500'])
      assert.deepEqual([gateway.load.inFlight.size, gateway.load.permits.taken], [0, 0])
    }
  })

  it('lets go of a request whose client leaves while the shared store is asked', () => {
    const table = new LimitTable([LIMIT])
    const asked: PendingTake[] = []
    const ask = (row: ConstructorParameters<typeof PendingTake>[0]) => {
      asked.push(new PendingTake(row))
      return asked[0] as PendingTake
    }
    const { gateway, arrival, res, sent, types } = pipeline({
      limiter: { find: table.find.bind(table), close: () => {}, ask },
    })
    const exchange = handle(gateway, arrival)
    res.close()
    assert.deepEqual([exchange.closed, types()], [true, ['API_REQUEST', 'API_RESPONSE 499']])
    assert.deepEqual([gateway.load.inFlight.size, gateway.load.permits.taken], [0, 0])
    asked[0]?.settle({ allowed: true, remaining: 0, resetSeconds: 1 })
    assert.deepEqual([sent, types()], [[], ['API_REQUEST', 'API_RESPONSE 499']])
  })

  it('waits for the commit of the record before anything goes upstream', () => {
    const { gateway, arrival, trail, sent } = pipeline()
    const commit = new Commit()
    trail.commit = commit
    handle(gateway, arrival)
    assert.deepEqual(sent, [])
    commit.finish(undefined)
    assert.deepEqual(sent, ['/api/x'])
  })

  it('forwards nothing whose record could not be committed', () => {
    const { gateway, arrival, trail, res, sent } = pipeline()
    const commit = new Commit()
    trail.commit = commit
    handle(gateway, arrival)
    trail.fault = new Error('disk full')
    commit.finish(trail.fault)
    assert.deepEqual([sent, res.status], [[], 503])
  })

  it('waits for a short body, and forwards nothing when the client goes away meanwhile', async () => {
    for (const goes of [false, true]) {
      const headers = { 'Content-Length': '5' }
      const { gateway, arrival, res, completeBody, sent, types } = pipeline(
        {},
        { method: 'PUT', headers, complete: false },
      )
      handle(gateway, arrival)
      assert.deepEqual(sent, [])
      if (goes) res.close()
      completeBody(undefined)
      await new Promise(setImmediate)
      assert.deepEqual(sent, goes ? [] : ['/api/x'])
      assert.deepEqual(types(), goes ? ['API_REQUEST', 'API_RESPONSE 499'] : ['API_REQUEST'])
    }
  })

  it('refuses when a stage throws, at once or later', async () => {
    const fails = (verify: () => unknown) =>
      pipeline(
        {
          routes: [makeRoute({ auth: new Set(['bearer'] as const) })],
          verifier: { verify } as object as Gateway['verifier'],
        },
        { headers: { Authorization: 'Bearer a.b.c' } },
      )
    const thrown = () => {
      throw new Error('a bug')
    }
    for (const verify of [thrown, async () => thrown()]) {
      const { gateway, arrival, res, sent, logged } = fails(verify)
      handle(gateway, arrival)
      await new Promise(setImmediate)
      assert.deepEqual([sent, res.status], [[], 500])
      assert.ok(logged.some(([level, , message]) => level === 'error' && message === 'a stage failed'))
      assert.equal(res.body.includes('a bug'), false)
    }
  })

  it('gives a request that will never be whole its refusal, unless an earlier stage has another', () => {
    const broken = refusal('malformed_request')
    const first = pipeline()
    assert.equal(handle(first.gateway, first.arrival, broken).refusalCode, 'malformed_request')
    assert.deepEqual(first.sent, [])
    const second = pipeline({ addressRate: TOO_MANY })
    assert.equal(handle(second.gateway, second.arrival, broken).refusalCode, 'address_rate_exceeded')
  })
})

describe('handleUnreadable', () => {
  it('refuses, and records what could be read', () => {
    const { gateway, arrival, res, trail } = pipeline({}, { target: '/api/x?y' })
    handleUnreadable(gateway, arrival, refusal('malformed_request'))
    assert.equal(res.status, 400)
    assert.deepEqual([trail.records[0]?.path, trail.records[1]?.statusCode], ['/api/x', 400])
  })

  it('records 499 when the client has gone', () => {
    const { gateway, arrival, res, types } = pipeline({}, { writable: false })
    handleUnreadable(gateway, arrival, refusal('malformed_request'))
    assert.deepEqual([res.calls, types()], [[], ['API_REQUEST', 'API_RESPONSE 499']])
  })
})

describe('giveUp', () => {
  it('stops the upstream and refuses', () => {
    const { gateway, arrival, res, types, aborted } = pipeline()
    giveUp(gateway, handle(gateway, arrival), refusal('request_timeout'))
    assert.deepEqual([res.status, aborted()], [408, 1])
    assert.deepEqual(types(), ['API_REQUEST', 'API_RESPONSE 408'])
  })
})

describe('open', () => {
  it('takes the request id of the client, and gives the pair of records one of its own beside it', () => {
    const { gateway, arrival } = pipeline({}, { headers: { 'X-Request-ID': 'client-chose-this-0001' } })
    const exchange = handle(gateway, arrival)
    assert.equal(exchange.requestId, 'client-chose-this-0001')
    assert.match(exchange.gatewayId ?? '', /^[0-9a-f-]{36}$/)
    const other = pipeline({}, { headers: { 'X-Request-ID': 'no id: <>' } })
    const { requestId, gatewayId } = handle(other.gateway, other.arrival)
    assert.match(requestId, /^[0-9a-f-]{36}$/)
    assert.equal(gatewayId, undefined)
  })

  it('closes the exchange when the client goes away, with 499', () => {
    const { gateway, arrival, res, types, aborted } = pipeline()
    handle(gateway, arrival)
    res.close()
    assert.deepEqual([types(), aborted()], [['API_REQUEST', 'API_RESPONSE 499'], 1])
    assert.equal(gateway.load.inFlight.size, 0)
  })
})
