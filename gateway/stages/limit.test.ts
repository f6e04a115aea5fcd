import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NO_CLIENTS } from '../config/clients/clients-file.ts'
import { PendingTake } from '../limits/limiter.ts'
import { makeRow, rowWith } from '../limits/table/limit-row.test-support.ts'
import { type LimitRow, LimitTable } from '../limits/table/limit-table.ts'
import type { Take } from '../limits/windows/window.ts'
import { limit } from './limit.ts'
import { makeExchange, makeGateway, makePrincipal, PEER } from './stage.test-support.ts'

const ROW = makeRow({
  name: 'orders',
  path: '/api/*',
  methods: new Set(['POST']),
  limit: 3,
  purpose: 'orders are dear',
})

interface Case {
  readonly row?: Partial<LimitRow>
  readonly take?: Partial<Take>
  readonly method?: string
  readonly path?: string
  readonly plan?: string
}

function limited({ row, take = { allowed: true }, method = 'POST', path = '/api/x', plan }: Case = {}) {
  const keys: string[] = []
  const table = new LimitTable([{ ...ROW, ...row }], new Map([['gold', 5]]))
  const made = makeGateway({
    clients: { table: { ...NO_CLIENTS, plans: new Map(plan === undefined ? [] : [['acme', plan]]) } },
    limiter: {
      find: table.find.bind(table),
      take: (_: LimitRow, key: string) => {
        keys.push(key)
        return { allowed: true, remaining: 2, resetSeconds: 9, ...take }
      },
      close: () => {},
    },
  })
  const { exchange } = makeExchange({ method })
  exchange.path = path
  exchange.principal = makePrincipal({ key: 'user-1', ...(plan && { client: 'acme' }) })
  const refused = limit(made.gateway, exchange)
  assert.ok(refused === undefined || 'code' in refused)
  return { refused, exchange, keys, measured: made.measured }
}

describe('limit', () => {
  it('counts by the caller, and tells the client what is left', () => {
    const { refused, exchange, keys, measured } = limited()
    assert.equal(refused, undefined)
    assert.deepEqual(keys, ['p:user-1'])
    assert.deepEqual(measured, ['gateway_rate_limit_decisions_total orders allowed'])
    assert.equal(exchange.limitHeaders[0], 'RateLimit-Policy')
    assert.match(exchange.limitHeaders[3] ?? '', /r=2/)
  })

  it('counts by the address where the row says so', () => {
    assert.deepEqual(limited({ row: { per: 'address' } }).keys, [`a:${PEER}`])
  })

  it('counts nothing for a path or method without a row', () => {
    for (const one of [limited({ path: '/other' }), limited({ method: 'GET' })]) {
      assert.deepEqual([one.refused, one.keys, one.exchange.limitHeaders], [undefined, [], []])
    }
  })

  it('counts another spelling of the path under the same row', () => {
    assert.deepEqual(limited({ path: '/API/x/' }).keys, ['p:user-1'])
  })

  it('refuses with the purpose and the time to wait', () => {
    const { refused, exchange, measured } = limited({ take: { allowed: false } })
    assert.equal(refused?.code, 'limit_exceeded')
    assert.match(refused.detail, /At most 3 requests in 1m: orders are dear/)
    assert.deepEqual(refused.headers, ['Retry-After', '9'])
    assert.equal(exchange.limitHeaders.length, 4)
    assert.deepEqual(measured, ['gateway_rate_limit_decisions_total orders refused'])
  })

  it('tells how many requests pass where each takes several hits', () => {
    const { refused } = limited({ row: { limit: 17, cost: 5 }, take: { allowed: false } })
    assert.match(refused?.detail ?? '', /At most 3 requests in 1m/)
  })

  it('names the windows that refuse, and tells the longest wait of these', () => {
    const row = rowWith(
      [
        [3, 60_000],
        [9, 3_600_000],
        [20, 86_400_000],
      ],
      { purpose: 'orders are dear', path: ROW.path, methods: ROW.methods },
    )
    const full = { allowed: false, remaining: 0 }
    const open = { allowed: true, remaining: 7, resetSeconds: 5000 }
    const take = { ...full, resetSeconds: 9, next: { ...full, resetSeconds: 900, next: open } }
    const { refused, exchange, measured } = limited({ row, take })
    assert.equal(refused?.detail, 'At most 3 requests in 60s and 9 requests in 3600s: orders are dear')
    assert.deepEqual(refused.headers, ['Retry-After', '900'])
    assert.deepEqual(refused.violatedPolicies, ['x-60s', 'x-3600s'])
    assert.equal(exchange.limitHeaders[3], '"x-60s";r=0;t=9, "x-3600s";r=0;t=900, "x-86400s";r=7;t=5000')
    assert.deepEqual(measured, [
      'gateway_rate_limit_decisions_total x-60s refused',
      'gateway_rate_limit_decisions_total x-3600s refused',
    ])
    const later = limited({ row, take: { ...open, next: { ...open, next: { ...full, resetSeconds: 3 } } } })
    assert.deepEqual(later.refused?.violatedPolicies, ['x-86400s'])
    const passed = limited({ row, take: { ...open, next: { ...open, next: open } } })
    assert.deepEqual(
      [passed.refused, passed.measured],
      [
        undefined,
        ['x-60s', 'x-3600s', 'x-86400s'].map((name) => `gateway_rate_limit_decisions_total ${name} allowed`),
      ],
    )
    const shadow = limited({ row: { ...row, mode: 'shadow' }, take })
    assert.deepEqual(
      [shadow.refused, shadow.measured.length, shadow.exchange.limitHeaders],
      [undefined, 2, []],
    )
  })

  it('names the policy of a row with one window', () => {
    assert.deepEqual(limited({ take: { allowed: false } }).refused?.violatedPolicies, ['orders'])
  })

  it('has the limits of the plan of the client', () => {
    const { exchange } = limited({ plan: 'gold' })
    assert.equal(exchange.limitHeaders[1], '"orders";q=15;w=60')
    assert.equal(
      limited({ plan: 'gold', row: { per: 'user' } }).exchange.limitHeaders[1],
      '"orders";q=3;w=60',
    )
  })

  it('refuses for each row that counts the request, and not for one in shadow mode', () => {
    const quota = makeRow({ name: 'quota', limit: 9, window: '1d', purpose: 'a quota' })
    const trial = makeRow({ name: 'trial', mode: 'shadow' })
    const row = { beside: { ...quota, beside: trial } }
    const full = { allowed: false, remaining: 0, resetSeconds: 9 }
    const open = { allowed: true, remaining: 2, resetSeconds: 9 }
    const both = limited({ row, take: { ...full, beside: { ...full, resetSeconds: 900, beside: full } } })
    assert.equal(
      both.refused?.detail,
      'At most 3 requests in 1m: orders are dear. At most 9 requests in 1d: a quota',
    )
    assert.deepEqual(both.refused.headers, ['Retry-After', '900'])
    assert.deepEqual(both.refused.violatedPolicies, ['orders', 'quota'])
    assert.equal(both.exchange.limitHeaders[3], '"orders";r=0;t=9, "quota";r=0;t=900')
    const passed = limited({ row, take: { ...open, beside: { ...open, beside: full } } })
    assert.deepEqual(
      [passed.refused, passed.measured],
      [
        undefined,
        ['orders allowed', 'quota allowed', 'trial shadow_refused'].map(
          (one) => `gateway_rate_limit_decisions_total ${one}`,
        ),
      ],
    )
    const one = limited({ row, take: { ...open, beside: { ...full, beside: open } } })
    assert.deepEqual(
      [one.refused?.violatedPolicies, one.measured],
      [['quota'], ['gateway_rate_limit_decisions_total quota refused']],
    )
  })

  it('refuses nobody in shadow mode, and shows nothing, but measures', () => {
    const { refused, exchange, measured } = limited({ row: { mode: 'shadow' }, take: { allowed: false } })
    assert.deepEqual([refused, exchange.limitHeaders], [undefined, []])
    assert.deepEqual(measured, ['gateway_rate_limit_decisions_total orders shadow_refused'])
  })

  it('refuses what cannot be counted, but not in shadow mode', () => {
    const take = { allowed: false, unrecorded: true } as const
    assert.equal(limited({ take }).refused?.code, 'limits_unavailable')
    const shadow = limited({ take, row: { mode: 'shadow' } })
    assert.deepEqual(
      [shadow.refused, shadow.measured],
      [undefined, ['gateway_rate_limit_decisions_total orders unavailable']],
    )
  })
})

/** A gateway with a shared store that has not decided yet. */
function asking(row: Partial<LimitRow> = {}) {
  const table = new LimitTable([{ ...ROW, ...row }])
  const asked: PendingTake[] = []
  const made = makeGateway({
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
  const { exchange } = makeExchange({ method: 'POST' })
  exchange.path = '/api/x'
  const outcome = limit(made.gateway, exchange)
  assert.ok(outcome !== undefined && 'whenKnown' in outcome)
  const known: unknown[] = []
  outcome.whenKnown((refused) => known.push(refused instanceof Error ? refused.message : refused?.code))
  return { exchange, known, settle: (take: Take) => asked[0]?.settle(take), measured: made.measured }
}

describe('limit with a shared store', () => {
  it('waits for the decision', () => {
    const allowed = asking()
    assert.deepEqual(allowed.known, [])
    allowed.settle({ allowed: true, remaining: 2, resetSeconds: 9 })
    assert.deepEqual(
      [allowed.known, allowed.measured],
      [[undefined], ['gateway_rate_limit_decisions_total orders allowed']],
    )
    assert.match(allowed.exchange.limitHeaders[3] ?? '', /r=2/)
    const refused = asking()
    refused.settle({ allowed: false, remaining: 0, resetSeconds: 9 })
    assert.deepEqual(refused.known, ['limit_exceeded'])
  })

  it('does not ask again for a request that askStore has asked for', () => {
    const table = new LimitTable([ROW])
    const { gateway } = makeGateway({
      limiter: {
        find: () => assert.fail('was found before'),
        close: () => {},
        ask: () => assert.fail('was asked before'),
      },
    })
    const { exchange } = makeExchange({ method: 'POST' })
    const pending = new PendingTake(table.find('/api/x', 'POST') ?? assert.fail())
    exchange.pendingTake = pending
    pending.settle({ allowed: true, remaining: 2, resetSeconds: 9 })
    assert.equal(limit(gateway, exchange), undefined)
    assert.match(exchange.limitHeaders[3] ?? '', /r=2/)
  })

  it('shows no figures for a request that nothing has counted', () => {
    const { settle, known, exchange, measured } = asking()
    settle({ allowed: true, remaining: 0, resetSeconds: 1, uncounted: true })
    assert.deepEqual([known, exchange.limitHeaders], [[undefined], []])
    assert.deepEqual(measured, ['gateway_rate_limit_decisions_total orders uncounted'])
  })
})
