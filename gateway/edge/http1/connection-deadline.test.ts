import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ConnectionDeadline } from './connection-deadline.ts'

it('a body at the minimum rate goes on for an hour, a slower one for as long as the grace covers', () => {
  const lifeMs = (bytesPerSecond: number): number => {
    let nowMs = 0
    const deadline = new ConnectionDeadline({
      head: { maxBytes: 0, maxFields: 0 },
      timeouts: {
        headersMs: 0,
        requestMs: Number.POSITIVE_INFINITY,
        bodyPace: { graceMs: 20_000, minBytesPerSecond: 500 },
        keepAliveMs: 0,
        idleMs: 0,
      },
      steadyClock: () => nowMs,
    })
    deadline.beginBody()
    for (nowMs = 1000; nowMs < 3_600_000; nowMs += 1000) {
      if (nowMs >= deadline.atMs) return nowMs
      deadline.extendBody(bytesPerSecond)
    }
    return Number.POSITIVE_INFINITY
  }
  assert.equal(lifeMs(500), Number.POSITIVE_INFINITY)
  // Half the rate uses the grace up twice as slowly as silence does.
  assert.equal(lifeMs(250), 39_000)
  assert.equal(lifeMs(1), 21_000)
})
