import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Shedding } from './shedding.ts'

/** Of a loop that comes round each `turnMs`, for a time. */
function loop() {
  const time = { nowMs: 0 }
  const shares: number[] = []
  const shedding = new Shedding({ steadyClock: () => time.nowMs, onShare: (share) => shares.push(share) })
  const turns = (turnMs: number, forMs: number) => {
    for (const endMs = time.nowMs + forMs; time.nowMs < endMs; ) {
      time.nowMs += Math.max(turnMs, 20)
      shedding.sample()
    }
  }
  const refused = (requests: number) =>
    Array.from({ length: requests }, () => shedding.refusesNext()).filter(Boolean).length
  return { shedding, shares, turns, refused }
}

describe('shedding', () => {
  it('refuses nothing while it is off, however late the loop is', () => {
    const { turns, refused, shares } = loop()
    turns(1000, 10_000)
    assert.deepEqual([refused(1000), shares], [0, []])
  })

  it('refuses more and more of them while the loop is late, but never all', (t) => {
    const { shedding, turns, refused } = loop()
    shedding.enforce(100)
    t.after(() => shedding.enforce(undefined))
    turns(119, 119 * 30)
    assert.equal(refused(1000), 0)
    turns(200, 600)
    assert.equal(refused(1000), 100)
    turns(200, 600)
    assert.equal(refused(1000), 200)
    turns(200, 60_000)
    assert.equal(refused(1000), 950)
  })

  it('holds its share between half the bound and the bound, and lets go below, step by step', (t) => {
    const { shedding, turns, refused, shares } = loop()
    shedding.enforce(100)
    t.after(() => shedding.enforce(undefined))
    turns(200, 1200)
    turns(100, 10_000)
    assert.equal(refused(1000), 200)
    turns(20, 200)
    assert.equal(refused(1000), 150)
    turns(20, 2000)
    assert.equal(refused(1000), 0)
    assert.deepEqual(shares, [0.1, 0.2, 0.15, 0.1, 0.05, 0])
  })

  it('takes one long pause, such as a collection of garbage, for no overload', (t) => {
    const { shedding, turns, refused } = loop()
    shedding.enforce(100)
    t.after(() => shedding.enforce(undefined))
    for (let i = 0; i < 20; i++) {
      turns(1000, 1000)
      turns(20, 60)
    }
    assert.equal(refused(1000), 0)
  })

  it('lets everything in as soon as it is switched off', () => {
    const { shedding, turns, refused } = loop()
    shedding.enforce(100)
    turns(500, 10_000)
    assert.ok(refused(100) > 0)
    shedding.enforce(undefined)
    assert.equal(refused(100), 0)
  })
})
