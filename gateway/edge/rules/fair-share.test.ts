import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FairPermits, isOverShare } from './fair-share.ts'

/** The permits that callers get when each takes as much as it can, one after the other. */
function taken(max: number, callers: number): number[] {
  let used = 0
  return Array.from({ length: callers }, () => {
    let own = 0
    while (used < max && !isOverShare({ own, free: max - used, max })) {
      own++
      used++
    }
    return own
  })
}

describe('the share of a room', () => {
  it('is unbounded as long as a quarter is free', () => {
    assert.equal(isOverShare({ own: 767, free: 257, max: 1024 }), false)
    assert.equal(isOverShare({ own: 768, free: 256, max: 1024 }), true)
  })

  it('leaves a quarter beside one caller, and half of the rest beside each further one', () => {
    assert.deepEqual(taken(1024, 4), [768, 129, 64, 32])
  })

  it('leaves room, as long as there is any, for a caller that has nothing', () => {
    assert.equal(isOverShare({ own: 0, free: 1, max: 1024 }), false)
    assert.equal(isOverShare({ own: 2, free: 1, max: 1024 }), true)
  })
})

function takeAll(permits: FairPermits, caller: string, isProxy = false): number {
  const before = permits.taken
  while (permits.take(caller, isProxy));
  return permits.taken - before
}

describe('the permits to use the upstream', () => {
  it('are never all taken by one caller: the next one still gets some', () => {
    const permits = new FairPermits(16)
    assert.equal(takeAll(permits, 'greedy'), 12)
    assert.equal(permits.take('other', false), true)
    assert.equal(permits.areExhausted, false)
    permits.release('greedy')
    assert.equal(permits.taken, 12)
  })

  it('may all be taken by a proxy, which acts for many', () => {
    const permits = new FairPermits(16)
    assert.equal(takeAll(permits, 'proxy', true), 16)
    assert.deepEqual([permits.areExhausted, permits.take('other', false)], [true, false])
  })

  it('count for a caller until they are given back', () => {
    const permits = new FairPermits(8)
    assert.equal(takeAll(permits, 'a'), 6)
    assert.equal(takeAll(permits, 'a'), 0)
    for (let i = 0; i < 6; i++) permits.release('a')
    assert.equal(takeAll(permits, 'a'), 6)
  })

  it('are refused while more are taken than there may be', () => {
    const permits = new FairPermits(8)
    takeAll(permits, 'proxy', true)
    permits.bound(4)
    permits.release('proxy')
    assert.equal(permits.take('other', false), false)
  })
})
