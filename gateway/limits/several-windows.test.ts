import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { withoutSyncs } from '../audit/commit/power.test-support.ts'
import { LONGER } from '../e2e/long-runs.ts'
import { Gateway, START_MS } from './gateway.test-support.ts'
import { Limiter } from './limiter.ts'
import { makeRow, rowWith } from './table/limit-row.test-support.ts'
import { type LimitRow, passes, windowsOf } from './table/limit-table.ts'
import { isAllowed, type Take } from './windows/window.ts'

const HOUR_MS = 3_600_000

function takesOf(take: Take): Take[] {
  const { next, ...own } = take
  return next === undefined ? [own] : [own, ...takesOf(next)]
}

/** A take as the store replies. */
const PASSED: Take = { allowed: true, remaining: 1, resetSeconds: 1 }

type Bound = readonly [limit: number, windowMs: number]
type Step =
  | { readonly do: 'take'; readonly key: string; readonly times: number }
  | { readonly do: 'pause'; readonly ms: number }
  | { readonly do: 'edit'; readonly bounds: readonly Bound[] }
  | { readonly do: 'restart' | 'crash' }

const anyLimit = fc.constantFrom(1, 2, 3, 5, 8)
const anyCost = fc.constantFrom(1, 1, 2, 5)
const anyBounds: fc.Arbitrary<Bound[]> = fc.uniqueArray(
  fc.tuple(anyLimit, fc.constantFrom(1000, 60_000, HOUR_MS, 24 * HOUR_MS)),
  { minLength: 1, maxLength: 4, selector: ([, windowMs]) => windowMs },
)
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('take' as const),
      key: fc.constantFrom('p:alice', 'p:bob'),
      times: fc.constantFrom(1, 1, 2, 4),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('pause' as const),
      ms: fc.constantFrom(1, 999, 1000, 30_000, 60_000, HOUR_MS / 2, HOUR_MS, 12 * HOUR_MS),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('edit' as const), bounds: anyBounds }) },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ do: 'restart' }, { do: 'crash' }) },
)

const anySteps = fc.array(anyStep, { maxLength: 60, size: 'max' })

describe('a row with several windows', () => {
  it('counts a request in all of them or in none, like a model without windows, journal or files', (t) => {
    withoutSyncs(t)
    fc.assert(
      fc.property(anyBounds, anyCost, anySteps, (first, cost, steps) => {
        const gateway = new Gateway()
        const rowOf = (bounds: readonly Bound[]) =>
          rowWith(
            bounds.map(([limit, windowMs]) => [limit + cost - 1, windowMs]),
            { cost },
          )
        let row = rowOf(first)
        gateway.limiter.replace([row])
        /** For each window the hits by key. */
        let hits = first.map(() => new Map<string, number[]>())
        for (const step of steps) {
          if (step.do === 'pause') gateway.nowMs += step.ms
          else if (step.do === 'edit') {
            const olds = windowsOf(row).map(({ windowMs }, i) => ({ windowMs, hits: hits[i] ?? new Map() }))
            hits = step.bounds.map(([, windowMs]) => knownTo(windowMs, olds, gateway.nowMs))
            row = rowOf(step.bounds)
            gateway.limiter.replace([row])
          } else if (step.do !== 'take') {
            gateway[step.do]()
            gateway.limiter.replace([row])
            if (step.do === 'crash')
              for (const [i, { windowMs }] of windowsOf(row).entries())
                if (windowMs < HOUR_MS) hits[i]?.clear()
          } else for (let i = 0; i < step.times; i++) takeBeside(gateway, row, hits, step.key)
        }
        gateway.close()
      }),
      { numRuns: 100 * LONGER },
    )
  })

  it('above a thousand, counts no refused request in a slice of any of them', () => {
    const gateway = new Gateway()
    const row = rowWith([
      [1, 60_000],
      [2000, HOUR_MS],
    ])
    gateway.limiter.replace([row])
    gateway.limiter.take(row, 'a')
    for (let i = 0; i < 50; i++) {
      gateway.nowMs += 500
      assert.equal(isAllowed(gateway.limiter.take(row, 'a')), false)
    }
    // The first hit has left the hour. If a refused hit had moved its slice, the first would still count.
    gateway.nowMs = START_MS + HOUR_MS
    assert.deepEqual(gateway.counts('a'), [0, 0])
  })

  it('uses no hit of any window when one of them has no memory for the caller', () => {
    const limiter = new Limiter({ clock: () => START_MS, maxKeys: 5 })
    const row = rowWith([
      [5, 1000],
      [5, 60_000],
    ])
    limiter.replace([row])
    const passed = ['a', 'b', 'c', 'd', 'e'].filter((key) => isAllowed(limiter.take(row, key)))
    for (const [, counters] of limiter.inForce().rows)
      assert.deepEqual(
        ['a', 'b', 'c', 'd', 'e'].filter((key) => counters.countOf(key, START_MS) > 0),
        passed,
      )
    assert.ok(passed.length > 0 && passed.length < 5)
  })

  it('uses no hit of any row when one row takes the memory that another needs', () => {
    const limiter = new Limiter({ clock: () => START_MS, maxKeys: 4 })
    limiter.replace([makeRow({ path: '/a' }), makeRow({ name: 'all', path: '/*', isOverall: true })])
    const ask = (path: string, key: string) => {
      const row = limiter.find(path, 'GET') ?? assert.fail(path)
      return passes(row, limiter.take(row, key))
    }
    const asked = [ask('/a', 'a'), ask('/b', 'b'), ask('/a', 'c'), ask('/a', 'c')]
    assert.deepEqual(asked, [true, true, false, false])
    for (const [, counters] of limiter.inForce().rows) assert.equal(counters.countOf('c', START_MS), 0)
  })

  it('gives all hits of a request back when the journal takes no line, in a log and in slices', () => {
    const gateway = new Gateway('unready')
    const row = rowWith(
      [
        [9, HOUR_MS],
        [2000, 24 * HOUR_MS],
      ],
      { cost: 3 },
    )
    gateway.limiter.replace([row])
    for (const hasRoom of [true, false, true]) {
      gateway.hasRoom = hasRoom
      gateway.nowMs += 1000
      gateway.limiter.take(row, 'a')
    }
    assert.deepEqual(gateway.counts('a'), [6, 6])
    gateway.crash()
    gateway.limiter.replace([row])
    assert.deepEqual(gateway.counts('a'), [6, 6])
  })

  it('writes and gives back the hits of each row that counts the request, under its own key', () => {
    const gateway = new Gateway('unready')
    const minute = makeRow({ name: 'minute', limit: 9 })
    const day = makeRow({
      name: 'day',
      path: '/*',
      limit: 9,
      windowMs: 24 * HOUR_MS,
      per: 'address',
      isOverall: true,
    })
    const take = () =>
      gateway.limiter.take(gateway.limiter.find('/api/x', 'GET') ?? assert.fail(), 'p:a', {
        principal: undefined,
        address: '192.0.2.1',
      })
    gateway.limiter.replace([minute, day])
    assert.equal(isAllowed(take()), true)
    gateway.hasRoom = false
    assert.equal(take().unrecorded, true)
    gateway.hasRoom = true
    assert.deepEqual(
      [gateway.counts('p:a'), gateway.counts('a:192.0.2.1')],
      [
        [1, 0],
        [0, 1],
      ],
    )
    gateway.crash()
    gateway.limiter.replace([minute, day])
    assert.deepEqual(
      [gateway.counts('p:a'), gateway.counts('a:192.0.2.1')],
      [
        [0, 0],
        [0, 1],
      ],
    )
  })

  it('counts in none of them when the journal takes no line', () => {
    const gateway = new Gateway('unready')
    const row = rowWith([
      [5, 60_000],
      [5, HOUR_MS],
      [5, 24 * HOUR_MS],
    ])
    gateway.limiter.replace([row])
    gateway.limiter.take(row, 'a')
    gateway.hasRoom = false
    assert.equal(gateway.limiter.take(row, 'a').unrecorded, true)
    assert.deepEqual(gateway.counts('a'), [1, 1, 1])
    gateway.hasRoom = true
    gateway.crash()
    gateway.limiter.replace([row])
    assert.deepEqual(gateway.counts('a'), [0, 1, 1])
  })

  it('counts what the store let through in each window with room, although another is full here', () => {
    const gateway = new Gateway()
    const row = rowWith([
      [1, 1000],
      [5, HOUR_MS],
    ])
    gateway.limiter.replace([row])
    gateway.limiter.take(row, 'a')
    gateway.limiter.take(row, 'a', undefined, PASSED)
    assert.deepEqual(gateway.counts('a'), [1, 2])
    gateway.crash()
    gateway.limiter.replace([row])
    assert.deepEqual(gateway.counts('a'), [0, 2])
  })

  it('takes up the journal of a row with one window, and leaves it to such a row again', () => {
    const gateway = new Gateway()
    const hourly = rowWith([[5, HOUR_MS]])
    gateway.limiter.replace([hourly])
    gateway.limiter.take(hourly, 'a')
    gateway.limiter.take(hourly, 'a')
    gateway.crash()
    const both = rowWith([
      [3, 60_000],
      [4, HOUR_MS],
    ])
    gateway.limiter.replace([both])
    assert.deepEqual(gateway.counts('a'), [2, 2])
    assert.deepEqual(
      takesOf(gateway.limiter.take(both, 'a')).map(({ remaining }) => remaining),
      [0, 1],
    )
    gateway.restart()
    gateway.limiter.replace([hourly])
    assert.deepEqual(gateway.counts('a'), [3])
  })
})

type Hits = Map<string, number[]>

/** The hits of a window after an edit: those of the shortest old window that is at least as long, else of the longest. */
function knownTo(
  windowMs: number,
  olds: readonly { readonly windowMs: number; readonly hits: Hits }[],
  nowMs: number,
): Hits {
  const byLength = olds.toSorted((one, other) => one.windowMs - other.windowMs)
  const old = byLength.find((one) => one.windowMs >= windowMs) ?? byLength.at(-1)
  const kept = [...(old?.hits ?? [])].map(
    ([key, times]) => [key, times.filter((atMs) => nowMs - atMs < (old?.windowMs ?? 0))] as const,
  )
  return new Map(kept)
}

function takeBeside(
  gateway: Gateway,
  row: LimitRow,
  hits: readonly Map<string, number[]>[],
  key: string,
): void {
  const { nowMs } = gateway
  const windows = windowsOf(row).map(({ limit, windowMs }, i) => {
    const times = hits[i]?.get(key) ?? []
    const counted = times.filter((atMs) => nowMs - atMs < windowMs)
    return { limit, windowMs, counted, admits: counted.length + row.cost <= limit }
  })
  const passes = windows.every(({ admits }) => admits)
  const takes = takesOf(gateway.limiter.take(row, key))
  const own = Array<number>(row.cost).fill(nowMs)
  if (passes) for (const each of hits) each.set(key, [...(each.get(key) ?? []), ...own])
  const expected = windows.map(({ limit, windowMs, counted, admits }) => {
    const used = passes ? [...counted, ...own] : counted
    const leaves = (admits ? used[0] : counted[counted.length - limit + row.cost - 1]) ?? nowMs
    return {
      allowed: admits,
      remaining: admits ? limit - used.length : 0,
      resetSeconds: Math.max(1, Math.ceil((windowMs - (nowMs - leaves)) / 1000)),
    }
  })
  assert.deepEqual(takes, expected)
}
