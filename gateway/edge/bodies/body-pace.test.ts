import assert from 'node:assert/strict'
import { it } from 'node:test'
import { BodyPace } from './body-pace.ts'

it('a body at the minimum rate goes on for an hour, one below it for as long as the grace covers', () => {
  const pace = new BodyPace({ graceMs: 20_000, minBytesPerSecond: 500 })
  const lifeMs = (bytesPerSecond: number): number => {
    let deadlineMs = pace.begin(0)
    for (let nowMs = 1000; nowMs < 3_600_000; nowMs += 1000) {
      if (nowMs >= deadlineMs) return nowMs
      deadlineMs = pace.extend(deadlineMs, bytesPerSecond, nowMs)
    }
    return Number.POSITIVE_INFINITY
  }
  assert.equal(lifeMs(500), Number.POSITIVE_INFINITY)
  // Half the rate uses the grace up twice as slowly as silence does.
  assert.equal(lifeMs(250), 39_000)
  assert.equal(lifeMs(1), 21_000)
})

it('what was sent fast is worth no more than the grace later', () => {
  const pace = new BodyPace({ graceMs: 20_000, minBytesPerSecond: 500 })
  assert.equal(pace.extend(pace.begin(0), 1024 * 1024 * 1024, 5000), 25_000)
})

it('without a minimum rate each byte restarts the grace', () => {
  const pace = new BodyPace({ graceMs: 20_000, minBytesPerSecond: 0 })
  assert.equal(pace.extend(pace.begin(0), 1, 19_999), 39_999)
})
