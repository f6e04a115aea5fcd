import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { makeRow, rowWith } from './limit-row.test-support.ts'
import {
  type LimitRow,
  LimitTable,
  rateLimit,
  rateLimitPolicy,
  rowsOf,
  writtenLimits,
  writtenRow,
} from './limit-table.ts'

function row(changes: Partial<LimitRow> = {}): LimitRow {
  return makeRow({
    name: 'login',
    path: '/api/login',
    limit: 5,
    purpose: 'slow down guessing',
    ...changes,
  })
}

describe('the RateLimit fields', () => {
  test('name the policy with its quota and its window in seconds', () => {
    assert.equal(rateLimitPolicy(row()), '"login";q=5;w=60')
    assert.equal(
      rateLimitPolicy(row({ name: 'verify', limit: 3, windowMs: 86_400_000 })),
      '"verify";q=3;w=86400',
    )
  })

  test('tell what remains and until when', () => {
    const login = row()
    assert.equal(rateLimit(login, { allowed: true, remaining: 4, resetSeconds: 60 }), '"login";r=4;t=60')
    assert.equal(rateLimit(login, { allowed: false, remaining: 0, resetSeconds: 37 }), '"login";r=0;t=37')
  })
})

test('the RateLimit fields of a row with several windows have an item for each', () => {
  const next = { allowed: false, remaining: 0, resetSeconds: 900 }
  const take = { allowed: true, remaining: 4, resetSeconds: 60, next }
  assert.equal(rateLimitPolicy(SEVERAL), '"x-60s";q=5;w=60, "x-3600s";q=20;w=3600')
  assert.equal(rateLimit(SEVERAL, take), '"x-60s";r=4;t=60, "x-3600s";r=0;t=900')
})

test('a row with several windows is written with them under its own name', () => {
  const { path, purpose, per, mode, onStoreFailure } = SEVERAL
  assert.deepEqual(JSON.parse(JSON.stringify(writtenRow(SEVERAL))), {
    path,
    windows: [
      { limit: 5, window: '60s' },
      { limit: 20, window: '3600s' },
    ],
    cost: 1,
    purpose,
    name: 'x',
    per,
    mode,
    onStoreFailure,
  })
})

const SEVERAL = rowWith([
  [5, 60_000],
  [20, 3_600_000],
])

const LOGIN: LimitRow = {
  name: 'login',
  path: '/api/login',
  methods: undefined,
  limit: 5,
  window: '1m',
  windowMs: 60_000,
  purpose: 'Slows "guessing"\nof passwords',
  per: 'caller',
  mode: 'enforce',
  cost: 1,
  onStoreFailure: 'local',
}

test('a row is written as the operator may write it, with its defaults', () => {
  const written = {
    path: '/api/login',
    limit: 5,
    window: '1m',
    purpose: LOGIN.purpose,
    name: 'login',
    per: 'caller',
    mode: 'enforce',
    cost: 1,
    onStoreFailure: 'local',
  }
  assert.deepEqual(JSON.parse(JSON.stringify(writtenRow(LOGIN))), written)
  const limited = { ...LOGIN, limit: 6, methods: new Set(['POST', 'PUT']) }
  assert.deepEqual(JSON.parse(JSON.stringify(writtenRow(limited))), {
    ...written,
    limit: 6,
    methods: ['POST', 'PUT'],
  })
})

test('a plan multiplies the limits of rows that count its clients, in each window, and no other limit', () => {
  const plans = new Map([
    ['gold', 5],
    ['tiny', 0.29],
  ])
  const several = rowWith([
    [5, 60_000],
    [100, 3_600_000],
  ])
  const table = new LimitTable([several, row({ per: 'user' }), row({ path: '/a', per: 'address' })], plans)
  const gold = table.find('/api/x', 'GET', 'gold')
  assert.equal(gold && rateLimitPolicy(gold), '"x-60s";q=25;w=60, "x-3600s";q=500;w=3600')
  assert.equal(gold, table.find('/API/x/', 'GET', 'gold'), 'made once')
  const tiny = table.find('/api/x', 'GET', 'tiny')
  assert.deepEqual([tiny?.limit, tiny?.next?.limit], [1, 29])
  assert.equal(table.find('/api/x', 'GET', 'of another table'), several)
  for (const path of ['/api/login', '/a'])
    assert.equal(table.find(path, 'GET', 'gold'), table.find(path, 'GET'))
})

test('plans are shown and recorded behind the rows', () => {
  assert.deepEqual(writtenLimits({ rows: [SEVERAL], plans: new Map([['gold', 5]]) }), [
    writtenRow(SEVERAL),
    { plan: 'gold', factor: 5 },
  ])
})

test('every row of overall that covers a request counts it beside the row of its path, those in shadow mode last', () => {
  const plans = new Map([['gold', 2]])
  const [all, one, posts] = [
    row({ name: 'all', path: '/*', mode: 'shadow', isOverall: true }),
    row({ name: 'one', path: '/api/{x}', isOverall: true, per: 'address' }),
    row({ name: 'posts', path: '/*', methods: new Set(['POST']), isOverall: true }),
  ] as const
  const table = new LimitTable([row(), all, one, posts], plans)
  const found = (path: string, method = 'GET', plan?: string) => {
    const list = table.find(path, method, plan)
    return list && rowsOf(list).map(({ name, limit }) => `${name} ${limit}`)
  }
  assert.deepEqual(found('/API/login/'), ['login 5', 'one 5', 'all 5'])
  assert.deepEqual(found('/api/login', 'GET', 'gold'), ['login 10', 'one 5', 'all 10'])
  assert.deepEqual(found('/other/x', 'POST'), ['posts 5', 'all 5'])
  assert.equal(table.find('/other/x', 'GET'), all)
  assert.equal(table.find('/api/login', 'GET', 'gold'), table.find('/api/LOGIN', 'GET', 'gold'), 'made once')
  const list = table.find('/api/login', 'GET') ?? assert.fail()
  const take = { allowed: true, remaining: 4, resetSeconds: 60 }
  assert.equal(rateLimitPolicy(list), '"login";q=5;w=60, "one";q=5;w=60')
  assert.equal(
    rateLimit(list, { ...take, beside: { ...take, remaining: 3, beside: take } }),
    '"login";r=4;t=60, "one";r=3;t=60',
  )
  assert.equal(rateLimit(list, { ...take, uncounted: true, beside: take }), '"one";r=4;t=60')
})

test('a row of overall covers the same paths as one of limits', () => {
  const patterns = ['/', '/*', '/a', '/A/', '/a/*', '/a/b', '/{x}', '/a/{x}', '/{x}/B', '/a-{x}.json']
  const paths = [
    '/',
    '/a',
    '/A',
    '/a/',
    '/ab',
    '/a/b',
    '/A/B/',
    '/a/b/c',
    '/x',
    '/x/b',
    '/a-1.json',
    '/a-.json',
    '/*',
  ]
  for (const path of patterns)
    for (const asked of paths) {
      const [limits, overall] = [{}, { isOverall: true as const }].map((more) =>
        new LimitTable([row({ path, ...more })]).find(asked, 'GET'),
      )
      assert.equal(overall !== undefined, limits !== undefined, `${path} ${asked}`)
    }
})
