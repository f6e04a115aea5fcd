import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import { Limiter } from './limiter.ts'
import { rowWith } from './table/limit-row.test-support.ts'
import type { Take } from './windows/window.ts'

const START_MS = 1_763_692_800_000

/** A window of the library begins at its first hit and does not slide. When one refuses, the others still lose points. */
it('rate-limiter-flexible decides and tells the same, up to the first refusal in the first window, also under a plan', async (context) => {
  context.mock.timers.enable({ apis: ['Date'] })
  const anyBounds = fc.uniqueArray(
    fc.tuple(fc.integer({ min: 1, max: 8 }), fc.constantFrom(60_000, 3_600_000, 86_400_000)),
    { minLength: 1, selector: ([, windowMs]) => windowMs },
  )
  const gaps = fc.array(fc.integer({ min: 0, max: 4_000 }), { minLength: 1, maxLength: 14 })
  const anyCost = fc.integer({ min: 1, max: 4 })
  const anyFactor = fc.constantFrom(1, 1.5, 3)
  await fc.assert(
    fc.asyncProperty(anyBounds, anyCost, anyFactor, gaps, async (spare, cost, factor, pauses) => {
      const written = spare.map(([limit, windowMs]) => [limit + cost - 1, windowMs] as const)
      const bounds = written.map(([limit, windowMs]) => [Math.floor(limit * factor), windowMs] as const)
      const others = bounds.map(([points, ms]) => new RateLimiterMemory({ points, duration: ms / 1000 }))
      let nowMs = START_MS
      const limiter = new Limiter({ clock: () => nowMs })
      limiter.replace([rowWith(written, { cost })], new Map([['plan', factor]]))
      const row = limiter.find('/api/x', 'GET', 'plan') ?? assert.fail('no row')
      for (const pause of pauses) {
        context.mock.timers.setTime(nowMs)
        let own: Take | undefined = limiter.take(row, 'a')
        const left: [ours: number | undefined, theirs: number][] = []
        let isRefused = false
        for (const [i, other] of others.entries()) {
          const theirs = await other.consume('a', cost).catch((refusal: RateLimiterRes) => refusal)
          const isAllowed = theirs.consumedPoints <= (bounds[i]?.[0] ?? 0)
          isRefused ||= !isAllowed
          assert.deepEqual(
            [own?.allowed, own?.resetSeconds],
            [isAllowed, Math.ceil(theirs.msBeforeNext / 1000)],
          )
          left.push([own?.remaining, theirs.remainingPoints])
          own = own?.next
        }
        if (isRefused) return
        for (const [ours, theirs] of left) assert.equal(ours, theirs)
        nowMs += pause
      }
    }),
    { numRuns: 100 },
  )
})
