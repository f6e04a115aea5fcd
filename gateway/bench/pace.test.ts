import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Pace } from './pace.ts'

/** Latencies at a server that takes one request at a time, for `serveMs` of a made-up clock. */
function latenciesOf(pace: Pace, serveMs: (startMs: number) => number): number[] {
  const latencies: number[] = []
  let nowMs = 0
  while (pace.dueMs !== undefined) {
    const dueMs = pace.take(nowMs)
    if (dueMs === undefined) {
      nowMs = pace.dueMs
      continue
    }
    nowMs += serveMs(nowMs)
    latencies.push(nowMs - dueMs)
  }
  return latencies
}

describe('an open-loop timetable', () => {
  it('lets no request go before its time', () => {
    const pace = new Pace({ startMs: 100, perSecond: 500, count: 3 })
    assert.equal(pace.take(99.9), undefined)
    assert.equal(pace.take(100), 100)
    assert.equal(pace.take(101.9), undefined)
    assert.equal(pace.take(102), 102)
  })

  it('gives out every request that is overdue, each with the time it was meant for', () => {
    const pace = new Pace({ startMs: 0, perSecond: 1000, count: 4 })
    assert.deepEqual([pace.take(50), pace.take(50), pace.take(50), pace.take(50)], [0, 1, 2, 3])
    assert.equal(pace.take(50), undefined)
    assert.equal(pace.dueMs, undefined)
  })

  it('keeps its rate over a long time', () => {
    const pace = new Pace({ startMs: 0, perSecond: 3000, count: 9_000_001 })
    let last: number | undefined
    for (let due = pace.take(Infinity); due !== undefined; due = pace.take(Infinity)) last = due
    assert.ok(Math.abs((last ?? 0) - 3_000_000) < 1e-3)
  })

  it('charges a stall to all requests that were meant to start during it', () => {
    const pace = new Pace({ startMs: 0, perSecond: 100, count: 100 })
    const latencies = latenciesOf(pace, (startMs) => (startMs === 200 ? 300 : 1))
    assert.equal(latencies.length, 100)
    // One slow response of 300 ms; the thirty requests due while it lasted waited for it, each 9 ms less than the one before.
    assert.equal(latencies.filter((latency) => latency > 100).length, 23)
    assert.equal(Math.max(...latencies), 300)
    assert.ok(latencies.toSorted((a, b) => a - b)[79]! > 50, 'a closed loop would have said 1 ms')
  })
})
