import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Limiter } from './limiter.ts'
import { NearestCallers } from './nearest-callers.ts'
import { makeRow } from './table/limit-row.test-support.ts'
import type { LimitRow } from './table/limit-table.ts'

function row(name: string, limit: number): LimitRow {
  return makeRow({
    name,
    path: `/${name}`,
    limit,
    purpose: 'a test',
  })
}

function limiterWith(rows: readonly LimitRow[]) {
  const time = { nowMs: 1_000_000 }
  const limiter = new Limiter({ clock: () => time.nowMs })
  limiter.replace(rows)
  const take = (of: LimitRow, key: string, hits: number) => {
    for (let i = 0; i < hits; i++) limiter.take(of, key)
  }
  return { limiter, time, take }
}

for (const [kind, limit] of [
  ['hit by hit', 100],
  ['in slices', 5000],
] as const) {
  it(`names the ten callers nearest to a limit counted ${kind}, without saying who they are`, () => {
    const login = row('login', limit)
    const { limiter, time, take } = limiterWith([login, row('idle', 5)])
    for (let i = 1; i <= 15; i++) take(login, i % 2 === 0 ? `p:user-${i}` : `a:10.0.0.${i}`, i)
    const nearest = new NearestCallers(limiter)
    const [first, second] = nearest.look()
    assert.deepEqual([first?.row.name, first?.callers, second?.nearest], ['login', 15, []])
    assert.deepEqual(
      first?.nearest.map(({ hits }) => hits),
      [15, 14, 13, 12, 11, 10, 9, 8, 7, 6],
    )
    assert.match(first?.nearest[0]?.caller ?? '', /^address [0-9a-f]{12}$/)
    assert.match(first?.nearest[1]?.caller ?? '', /^caller [0-9a-f]{12}$/)
    assert.deepEqual(nearest.look()[0]?.nearest, first?.nearest)
    time.nowMs += 60_001
    assert.deepEqual(nearest.look()[0]?.nearest, [])
  })
}

it('compares each caller with the limit of its plan, also after an edit', () => {
  const rows = (limit: number) => [row('quota', limit)]
  const { limiter } = limiterWith([])
  const plans = new Map([
    ['gold', 5],
    ['tin', 0.5],
  ])
  const use = (limit: number, takes: Record<string, number>) => {
    limiter.replace(rows(limit), plans)
    for (const [name, hits] of Object.entries(takes))
      for (let i = 0; i < hits; i++)
        limiter.take(limiter.find('/quota', 'GET', name) ?? assert.fail(name), `p:${name}`)
    return new NearestCallers(limiter).look()[0]?.nearest.map(({ hits: used, limit: of }) => [used, of])
  }
  assert.deepEqual(use(10, { gold: 30, tin: 5, none: 7 }), [
    [5, 5],
    [7, 10],
    [30, 50],
  ])
  assert.deepEqual(use(20, {}), [
    [5, 10],
    [7, 20],
    [30, 100],
  ])
})

it('changes nothing of what is counted', () => {
  const login = row('login', 3)
  const { limiter, time, take } = limiterWith([login])
  take(login, 'p:a', 2)
  time.nowMs += 30_000
  take(login, 'p:a', 1)
  time.nowMs += 31_000
  const nearest = new NearestCallers(limiter)
  assert.deepEqual(
    nearest.look()[0]?.nearest.map(({ hits }) => hits),
    [1],
  )
  assert.equal(limiter.take(login, 'p:a').remaining, 1)
})

it('goes through many callers in several looks, and keeps the best of them meanwhile', () => {
  const login = row('login', 100)
  const { limiter, take } = limiterWith([login])
  for (let i = 0; i < 100; i++) take(login, `p:${i}`, i === 3 || i === 97 ? 90 : 1)
  const nearest = new NearestCallers(limiter, 20)
  const hits = () => nearest.look()[0]?.nearest.map((one) => one.hits)
  assert.equal(hits()?.[0], 90)
  for (let look = 0; look < 4; look++) hits()
  assert.deepEqual(hits()?.slice(0, 3), [90, 90, 1])
})
