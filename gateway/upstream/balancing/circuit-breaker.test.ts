import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { BreakerSettings } from '../../config/upstreams/upstream-group.ts'
import { FRAGILE } from '../contract/scripted.test-support.ts'
import { type BreakerState, CircuitBreaker, NO_PROBE } from './circuit-breaker.ts'

function breaker(settings: Partial<BreakerSettings> = {}) {
  const time = { nowMs: 1000 }
  const changes: BreakerState[] = []
  const made = new CircuitBreaker(
    { ...FRAGILE, failures: 3, ...settings },
    () => time.nowMs,
    (state) => changes.push(state),
  )
  return { breaker: made, time, changes }
}

/** A whole response. */
function responded(to: CircuitBreaker, status: number, probe: number): void {
  to.responded(status, probe)
  to.succeeded(status, probe)
}

describe('a circuit breaker', () => {
  it('opens after `failures` failures in a row, and a success in between begins a new count', () => {
    const { breaker: one, changes } = breaker()
    for (const status of [500, 503, 200, 500, 599, 404]) responded(one, status, NO_PROBE)
    assert.deepEqual([one.state, one.admits(), one.waitMs], ['closed', true, 0])
    responded(one, 502, NO_PROBE)
    one.failed(NO_PROBE)
    responded(one, 504, NO_PROBE)
    assert.deepEqual([one.state, one.admits(), one.waitMs, changes], ['open', false, 5000, ['open']])
    assert.equal(one.cause, 'status 504')
  })

  it('counts only the statuses that it is told to', () => {
    const { breaker: one } = breaker({ statuses: [503] })
    for (let i = 0; i < 10; i++) responded(one, 500, NO_PROBE)
    assert.equal(one.state, 'closed')
    for (let i = 0; i < 3; i++) responded(one, 503, NO_PROBE)
    assert.equal(one.state, 'open')
  })

  it('opens at a percentage of failures in the window, but not before it has enough requests', () => {
    const { breaker: one, time } = breaker({ failures: 0, failurePercent: 50, minRequests: 10 })
    for (let i = 0; i < 9; i++) one.failed(NO_PROBE)
    assert.equal(one.state, 'closed')
    // The failures have left the window.
    time.nowMs += 11_000
    for (let i = 0; i < 6; i++) responded(one, 200, NO_PROBE)
    for (let i = 0; i < 5; i++) one.failed(NO_PROBE)
    assert.equal(one.state, 'closed')
    one.failed(NO_PROBE)
    assert.equal(one.state, 'open')
  })

  it('keeps failures of the last nine tenths of the window and none older than the window', () => {
    for (const [passedMs, state] of [
      [8999, 'open'],
      [10_000, 'closed'],
    ] as const) {
      const { breaker: one, time } = breaker({ failures: 0, failurePercent: 100, minRequests: 4 })
      for (let i = 0; i < 3; i++) one.failed(NO_PROBE)
      time.nowMs += passedMs
      one.failed(NO_PROBE)
      assert.equal(one.state, state)
    }
  })

  it('lets its probes through after its time, closes when all succeed and opens again when one fails', () => {
    const { breaker: one, time, changes } = breaker({ failures: 1, probes: 2 })
    one.failed(NO_PROBE)
    time.nowMs += 4999
    assert.deepEqual([one.admits(), one.waitMs], [false, 1])
    time.nowMs += 1
    assert.equal(one.admits(), true)
    const probes = [one.begin(), one.begin()]
    assert.deepEqual([one.state, one.admits()], ['half-open', false])
    responded(one, 200, probes[0] as number)
    assert.equal(one.admits(), false)
    responded(one, 500, probes[1] as number)
    assert.deepEqual([one.state, one.waitMs], ['open', 5000])
    time.nowMs += 5000
    for (const probe of [one.begin(), one.begin()]) responded(one, 404, probe)
    assert.deepEqual(changes, ['open', 'half-open', 'open', 'half-open', 'closed'])
    assert.equal(one.begin(), NO_PROBE)
  })

  it('learns nothing when half open from exchanges that began before', () => {
    const { breaker: one, time } = breaker({ failures: 1 })
    one.failed(NO_PROBE)
    time.nowMs += 5000
    const first = one.begin()
    responded(one, 200, NO_PROBE)
    one.failed(NO_PROBE)
    assert.equal(one.state, 'half-open')
    one.failed(first)
    time.nowMs += 5000
    const second = one.begin()
    responded(one, 200, first)
    assert.equal(one.state, 'half-open')
    responded(one, 200, second)
    assert.equal(one.state, 'closed')
  })

  it('gives the place of a probe without a result to another, and does not wait for a slow probe for ever', () => {
    const { breaker: one, time } = breaker({ failures: 1 })
    one.failed(NO_PROBE)
    time.nowMs += 5000
    one.abandoned(one.begin())
    assert.equal(one.admits(), true)
    const slow = one.begin()
    time.nowMs += 4999
    assert.deepEqual([one.admits(), one.waitMs], [false, 1])
    time.nowMs += 1
    assert.equal(one.admits(), true)
    one.begin()
    // Another probe already has its place.
    one.abandoned(slow)
    assert.equal(one.admits(), false)
  })

  it('half open admits at most `probes` in each round, and begins rounds `openMs` apart, whatever their results', () => {
    const step = fc.record({
      waitMs: fc.nat(3000),
      result: fc.constantFrom('none', 'success', 'failure', 'abandoned'),
      which: fc.nat(20),
    })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 200 }), (probes, steps) => {
        const { breaker: one, time } = breaker({ failures: 1, probes })
        one.failed(NO_PROBE)
        const underWay: number[] = []
        const rounds = new Map<number, { readonly beganMs: number; held: number }>()
        for (const { waitMs, result, which } of steps) {
          time.nowMs += waitMs
          if (one.admits()) {
            const probe = one.begin()
            const round = rounds.get(probe) ?? { beganMs: time.nowMs, held: 0 }
            rounds.set(probe, round)
            round.held += 1
            underWay.push(probe)
            assert.ok(round.held <= probes, `${round.held} of ${probes}`)
          }
          const [ended] = result === 'none' ? [] : underWay.splice(which % (underWay.length + 1), 1)
          if (ended === undefined) continue
          if (result === 'success') responded(one, 200, ended)
          else if (result === 'failure') one.failed(ended)
          else {
            one.abandoned(ended)
            const round = rounds.get(ended)
            if (round !== undefined) round.held -= 1
          }
          if (one.state === 'closed') one.failed(NO_PROBE)
        }
        const begins = [...rounds.values()].map(({ beganMs }) => beganMs)
        for (const [i, beganMs] of begins.entries()) {
          assert.ok(i === 0 || beganMs - (begins[i - 1] as number) >= 5000)
        }
      }),
    )
  })
})
