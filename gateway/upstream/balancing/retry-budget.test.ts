import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { RetrySettings } from '../../config/upstreams/upstream-group.ts'
import { RetryBudget } from './retry-budget.ts'

function budget(settings: Partial<RetrySettings> = {}) {
  const time = { nowMs: 1000 }
  const outcomes: string[] = []
  const all = { statuses: [503], budgetPercent: 20, minPerSecond: 0, attempts: 1, ...settings }
  const made = new RetryBudget(
    all,
    () => time.nowMs,
    (outcome) => outcomes.push(outcome),
  )
  return { budget: made, time, outcomes }
}

describe('a retry budget', () => {
  it('allows its percentage of requests', () => {
    const { budget: one, outcomes } = budget()
    let taken = 0
    for (let i = 0; i < 100; i++) {
      one.deposit()
      if (one.take()) taken++
    }
    assert.ok(taken === 20 || taken === 19, `${taken}`)
    assert.equal(outcomes.filter((outcome) => outcome === 'denied').length, 100 - taken)
  })

  it('allows `minPerSecond` retries in addition, without any request', () => {
    const { budget: one, time } = budget({ budgetPercent: 0, minPerSecond: 2 })
    assert.deepEqual([one.take(), one.take(), one.take()], [true, true, false])
    time.nowMs += 500
    assert.deepEqual([one.take(), one.take()], [true, false])
  })

  it('saves up ten retries, or the retries of ten seconds, and no more', () => {
    const { budget: one, time } = budget({ minPerSecond: 3 })
    for (let i = 0; i < 10_000; i++) one.deposit()
    time.nowMs += 3_600_000
    let taken = 0
    while (one.take()) taken++
    assert.equal(taken, 30)
  })

  it('is never exceeded in any period', () => {
    const step = fc.record({ waitMs: fc.nat(2000), requests: fc.nat(30), retries: fc.nat(30) })
    const settings = fc.record({ budgetPercent: fc.nat(100), minPerSecond: fc.nat(5) })
    fc.assert(
      fc.property(settings, fc.array(step, { maxLength: 60 }), (chosen, steps) => {
        const { budget: one, time } = budget(chosen)
        const saved = Math.max(10, chosen.minPerSecond * 10)
        const log: { readonly atMs: number; readonly requests: number; readonly taken: number }[] = []
        for (const { waitMs, requests, retries } of steps) {
          time.nowMs += waitMs
          for (let i = 0; i < requests; i++) one.deposit()
          let taken = 0
          for (let i = 0; i < retries; i++) if (one.take()) taken++
          log.push({ atMs: time.nowMs, requests, taken })
        }
        for (let from = 0; from < log.length; from++) {
          let allowed = saved
          let taken = 0
          for (let to = from; to < log.length; to++) {
            const { atMs = 0, requests = 0, taken: more = 0 } = log[to] ?? {}
            const sinceMs = to === from ? 0 : atMs - (log[to - 1]?.atMs ?? 0)
            allowed += (requests * chosen.budgetPercent) / 100 + (sinceMs / 1000) * chosen.minPerSecond
            taken += more
            assert.ok(taken <= allowed + 1e-6, `${taken} of ${allowed}`)
          }
        }
      }),
    )
  })

  it('is kept for the same settings', () => {
    const { budget: one } = budget()
    const settings = { statuses: [503], budgetPercent: 20, minPerSecond: 0, attempts: 1 }
    assert.equal(one.isOf(settings), true)
    assert.equal(one.isOf({ ...settings, statuses: [502] }), false)
  })
})
