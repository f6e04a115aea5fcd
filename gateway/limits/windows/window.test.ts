import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { LONGER } from '../../e2e/long-runs.ts'
import { isExpired, Window, type WindowRule, windowRule } from './window.ts'

const START = 1_763_692_800_000

type Rule = (limit: number, windowMs: number, horizonMs?: number) => WindowRule

const logged: Rule = windowRule
/** Has slices under a small limit too. */
const sliced: Rule = (limit, windowMs, horizonMs) => ({
  ...windowRule(limit, windowMs, horizonMs),
  sliceMs: windowMs / 100,
})

/** Pauses in quarters of a millisecond, often exactly on the edges of a window of 60 s and of its slices. */
const pause = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(0, 0, 0.25, 600, 599.75, 30_000, 59_399.75, 59_999.75, 60_000, 60_000.25),
  },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 40_000 }).map((quarters) => quarters / 4) },
)
const schedule = fc.array(pause, { minLength: 1, maxLength: 120, size: 'max' })

/** The times of a schedule of pauses. */
function timesOf(pauses: readonly number[]): number[] {
  let at = START
  return pauses.map((ms) => {
    at += ms
    return at
  })
}

/** Most hits in any half-open interval of `windowMs`. */
function densest(hits: readonly number[], windowMs: number): number {
  let most = 0
  for (const [i, first] of hits.entries()) {
    most = Math.max(most, hits.slice(i).filter((at) => at - first < windowMs).length)
  }
  return most
}

const forms: [string, Rule][] = [
  ['a log', logged],
  ['slices', sliced],
]

for (const [form, rule] of forms) {
  describe(`a window kept as ${form}`, () => {
    test('never lets more than the limit through in any half-open interval of its length', () => {
      fc.assert(
        fc.property(schedule, fc.integer({ min: 1, max: 6 }), (pauses, limit) => {
          const window = new Window()
          const allowed = timesOf(pauses).filter((at) => window.take(at, rule(limit, 60_000)).allowed)
          assert.ok(densest(allowed, 60_000) <= limit)
        }),
        { numRuns: 500 * LONGER },
      )
    })

    test('consumes nothing on refusal: without the refused takes the same ones are let through', () => {
      fc.assert(
        fc.property(schedule, fc.integer({ min: 1, max: 6 }), (pauses, limit) => {
          const [all, alone] = [new Window(), new Window()]
          const allowed = timesOf(pauses).filter((at) => all.take(at, rule(limit, 60_000)).allowed)
          assert.deepEqual(
            allowed.filter((at) => alone.take(at, rule(limit, 60_000)).allowed),
            allowed,
          )
          assert.deepEqual([...alone.entries()].at(-1), [...all.entries()].at(-1))
        }),
        { numRuns: 500 * LONGER },
      )
    })

    test('tells an honest reset: refused a second before it, let through after it', () => {
      fc.assert(
        fc.property(
          schedule,
          fc.integer({ min: 1, max: 6 }),
          fc.integer({ min: 1, max: 6 }),
          (pauses, before, limit) => {
            const window = new Window()
            const times = timesOf(pauses)
            for (const at of times) window.take(at, rule(before, 60_000))
            // Another limit holds from here on, as after an edit.
            const now = (times.at(-1) ?? START) + 0.25
            const take = window.take(now, rule(limit, 60_000))
            assert.ok(
              Number.isInteger(take.resetSeconds) && take.resetSeconds >= 1 && take.resetSeconds <= 60,
            )
            if (take.allowed) return
            assert.equal(take.remaining, 0)
            const early = now + (take.resetSeconds - 1) * 1000
            assert.equal(window.take(early, rule(limit, 60_000)).allowed, false)
            assert.equal(window.take(now + take.resetSeconds * 1000, rule(limit, 60_000)).allowed, true)
          },
        ),
        { numRuns: 1000 * LONGER },
      )
    })

    test('counts down what remains, and of many simultaneous takes lets through exactly as many as the limit', () => {
      const window = new Window()
      const takes = Array.from({ length: 20 }, () => window.take(START, rule(3, 60_000)))
      assert.deepEqual(
        takes.map(({ allowed, remaining }) => [allowed, remaining]),
        [[true, 2], [true, 1], [true, 0], ...new Array(17).fill([false, 0])],
      )
      assert.ok(takes.every((take) => take.resetSeconds === 60))
    })

    test('is half open: a hit of exactly one window ago no longer counts, one a quarter millisecond younger does', () => {
      const window = new Window()
      window.take(START, rule(1, 60_000))
      assert.deepEqual(window.take(START + 59_999.75, rule(1, 60_000)), {
        allowed: false,
        remaining: 0,
        resetSeconds: 1,
      })
      assert.equal(window.take(START + 60_000, rule(1, 60_000)).allowed, true)
    })

    test('forgets what lies at or before the horizon of its rule', () => {
      const window = new Window()
      window.take(START, rule(2, 60_000))
      window.take(START + 1000, rule(2, 60_000))
      assert.equal(window.countAt(START + 2000, rule(2, 60_000, START)), 1)
      assert.equal(window.countAt(START + 2000, rule(2, 60_000, START + 1000)), 0)
    })

    test('is idle when nothing counts, and only then', () => {
      const window = new Window()
      assert.equal(window.isIdle(START, rule(2, 60_000)), true)
      window.take(START, rule(2, 60_000))
      window.take(START + 1000, rule(2, 60_000))
      assert.equal(window.isIdle(START + 60_999.75, rule(2, 60_000)), false)
      assert.equal(window.isIdle(START + 61_000, rule(2, 60_000)), true)
      assert.equal(window.isIdle(START + 2000, rule(2, 60_000, START + 1000)), true)
    })

    test('lets nothing through under a limit of zero', () => {
      assert.deepEqual(new Window().take(START, rule(0, 60_000)), {
        allowed: false,
        remaining: 0,
        resetSeconds: 60,
      })
    })

    test('stays in order when the clock is not: a late hit counts as long as the one before it', () => {
      const window = new Window()
      window.add(START + 1000, 1, rule(3, 60_000))
      window.add(START, 1, rule(3, 60_000))
      assert.equal(window.countAt(START + 60_500, rule(3, 60_000)), 2)
      assert.equal(window.isIdle(START + 60_500, rule(3, 60_000)), false)
    })

    test('gives all hits that count as entries, oldest first', () => {
      const window = new Window()
      for (const at of [0, 10_000, 20_000]) window.take(START + at, rule(5, 60_000))
      assert.deepEqual(
        [...window.entries()],
        [0, 10_000, 20_000].map((at) => [START + at, 1]),
      )
    })
  })
}

test('a log agrees with a plain list of times in every answer, whatever the rules', () => {
  const step = fc.tuple(pause, fc.integer({ min: 1, max: 5 }))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
      const window = new Window()
      let list: number[] = []
      let now = START
      for (const [ms, limit] of steps) {
        now += ms
        const current = logged(limit, 60_000)
        list = list.filter((at) => !isExpired(at, now, current))
        const allowed = list.length < limit
        const blocking = allowed ? (list[0] ?? now) : (list[list.length - limit] ?? now)
        if (allowed) list.push(now)
        assert.deepEqual(window.take(now, current), {
          allowed,
          remaining: allowed ? limit - list.length : 0,
          resetSeconds: Math.ceil((60_000 - (now - blocking)) / 1000),
        })
        assert.deepEqual(
          [...window.entries()],
          list.map((at) => [at, 1]),
        )
      }
    }),
    { numRuns: 500 * LONGER },
  )
})

test('a log of a thousand hits gives its memory back as they leave, and keeps their order', () => {
  const window = new Window()
  for (let i = 0; i < 1000; i++) window.take(START + i, logged(1000, 60_000))
  for (const left of [999, 300, 250, 249, 100, 10, 1]) {
    const nowMs = START + 60_000 + 999 - left
    assert.equal(window.countAt(nowMs, logged(1000, 60_000)), left)
    assert.equal(window.take(nowMs, logged(left, 60_000)).allowed, false)
    assert.deepEqual([...window.entries()][0], [START + 1000 - left, 1])
  }
  assert.equal(window.take(START + 60_998, logged(2, 60_000)).allowed, true)
  assert.deepEqual(
    [...window.entries()],
    [
      [START + 999, 1],
      [START + 60_998, 1],
    ],
  )
})

test('slices refuse at most a hundredth of the window early', () => {
  fc.assert(
    fc.property(schedule, fc.integer({ min: 1, max: 6 }), (pauses, limit) => {
      const window = new Window()
      const allowed: number[] = []
      for (const now of timesOf(pauses)) {
        if (window.take(now, sliced(limit, 60_000)).allowed) allowed.push(now)
        else assert.ok(allowed.filter((at) => now - at < 60_600).length >= limit)
      }
    }),
    { numRuns: 500 * LONGER },
  )
})

test('slices become a log only when a hit is counted, so that refused requests under two plans convert nothing', () => {
  const window = new Window()
  window.take(START, sliced(5, 60_000), 3)
  assert.equal(window.take(START, logged(5, 60_000), 1, false).remaining, 2)
  assert.deepEqual([...window.entries()], [[START, 3]])
  window.take(START, logged(5, 60_000))
  assert.equal([...window.entries()].length, 4)
})

test('slices hold no more than 102 entries however many hits they count', () => {
  const window = new Window()
  for (let i = 0; i < 200_000; i++) window.take(START + i, sliced(1_000_000, 60_000))
  assert.equal(
    [...window.entries()].reduce((sum, [, count]) => sum + count, 0),
    window.countAt(START + 200_000, sliced(1, 60_000)),
  )
  assert.ok([...window.entries()].length <= 102)
  assert.ok(window.countAt(START + 200_000, sliced(1, 60_000)) >= 60_000)
})

for (const [form, rule] of forms) {
  test(`a hit that is given back is gone, and what comes after it counts as long as ever (${form})`, () => {
    const window = new Window()
    const minute = rule(10, 60_000)
    window.take(START, minute)
    window.take(START + 1000, minute)
    window.giveBack(1)
    assert.deepEqual([...window.entries()], [[START, 1]])
    window.take(START + 2000, minute)
    assert.equal(window.countAt(START + 60_000, minute), 1)
    assert.equal(window.countAt(START + 62_000, minute), 0)
  })

  test(`a window is idle once its only hit is given back (${form})`, () => {
    const window = new Window()
    const minute = rule(1, 60_000)
    window.take(START, minute)
    assert.equal(window.isIdle(START, minute), false)
    window.giveBack(1)
    assert.equal(window.isIdle(START, minute), true)
    assert.deepEqual([window.countAt(START, minute), [...window.entries()]], [0, []])
    assert.equal(window.take(START, minute).allowed, true)
  })
}

test('limits up to a thousand have a log, larger ones slices', () => {
  assert.equal(windowRule(1000, 60_000).sliceMs, 0)
  assert.equal(windowRule(1001, 60_000).sliceMs, 600)
})

/** Runs in a process of its own: fields that once held a double hold doubles for good. */
test('counts are small integers of V8, however the array of an entry held them', () => {
  const program = `
    import { Window, windowRule } from ${JSON.stringify(new URL('window.ts', import.meta.url))}
    const rule = windowRule(5000, 60_000)
    const nowMs = Date.UTC(2026, 0, 2)
    const [expired, converted, restored] = [new Window(), new Window(), new Window()]
    for (let i = 0; i < 3000; i++) expired.take(nowMs + i * 50, rule)
    for (let i = 0; i < 20; i++) converted.take(nowMs, windowRule(50, 60_000))
    for (const [atMs, count] of [[nowMs, 5], [nowMs + 1000, 3]]) restored.add(atMs, count, rule)
    const takes = [[expired, 151_000], [converted, 1000], [restored, 2000], [restored, 60_500]]
    console.log(takes.map(([window, afterMs]) => %IsSmi(window.take(nowMs + afterMs, rule).remaining)).join())`
  const args = ['--allow-natives-syntax', '--input-type=module', '--eval', program]
  assert.equal(execFileSync(process.execPath, args, { encoding: 'utf8' }), 'true,true,true,true\n')
})
