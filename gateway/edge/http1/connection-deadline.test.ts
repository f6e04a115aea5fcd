import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ConnectionDeadline } from './connection-deadline.ts'

/** The deadline of a body that begins at 0. */
function bodyAt(minBytesPerSecond: number) {
  const time = { nowMs: 0 }
  const deadline = new ConnectionDeadline({
    head: { maxBytes: 0, maxFields: 0 },
    timeouts: {
      headersMs: 0,
      requestMs: Number.POSITIVE_INFINITY,
      bodyPace: { graceMs: 20_000, minBytesPerSecond },
      keepAliveMs: 0,
      idleMs: 0,
    },
    steadyClock: () => time.nowMs,
  })
  deadline.beginBody()
  return { deadline, time }
}

it('a body at the minimum rate goes on for an hour, a slower one for as long as the grace covers', () => {
  const lifeMs = (bytesPerSecond: number): number => {
    const { deadline, time } = bodyAt(500)
    for (time.nowMs = 1000; time.nowMs < 3_600_000; time.nowMs += 1000) {
      if (time.nowMs >= deadline.atMs) return time.nowMs
      deadline.extendBody(bytesPerSecond)
    }
    return Number.POSITIVE_INFINITY
  }
  assert.equal(lifeMs(500), Number.POSITIVE_INFINITY)
  // Half the rate uses the grace up twice as slowly as silence does.
  assert.equal(lifeMs(250), 39_000)
  assert.equal(lifeMs(1), 21_000)
})

it('what was sent fast is worth no more than the grace later', () => {
  const { deadline, time } = bodyAt(500)
  time.nowMs = 5000
  deadline.extendBody(1024 * 1024 * 1024)
  assert.equal(deadline.atMs, 25_000)
})

it('without a minimum rate each byte restarts the grace', () => {
  const { deadline, time } = bodyAt(0)
  time.nowMs = 19_999
  deadline.extendBody(1)
  assert.equal(deadline.atMs, 39_999)
})
