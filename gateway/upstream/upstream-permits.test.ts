import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { UpstreamPermits } from './upstream-permits.ts'

/** As many as it can get. */
function takeAll(permits: UpstreamPermits, caller: string, isProxy = false): number {
  const before = permits.taken
  while (permits.take(caller, isProxy));
  return permits.taken - before
}

describe('the permits to use the upstream', () => {
  it('are never all taken by one caller: the next one still gets some', () => {
    const permits = new UpstreamPermits(16)
    assert.equal(takeAll(permits, 'greedy'), 12)
    assert.equal(permits.take('other', false), true)
    assert.equal(permits.areExhausted, false)
    permits.release('greedy')
    assert.equal(permits.taken, 12)
  })

  it('may all be taken by a proxy, which acts for many', () => {
    const permits = new UpstreamPermits(16)
    assert.equal(takeAll(permits, 'proxy', true), 16)
    assert.deepEqual([permits.areExhausted, permits.take('other', false)], [true, false])
  })

  it('count for a caller until they are given back', () => {
    const permits = new UpstreamPermits(8)
    assert.equal(takeAll(permits, 'a'), 6)
    assert.equal(takeAll(permits, 'a'), 0)
    for (let i = 0; i < 6; i++) permits.release('a')
    assert.equal(takeAll(permits, 'a'), 6)
  })

  it('are refused while more are taken than there may be', () => {
    const permits = new UpstreamPermits(8)
    takeAll(permits, 'proxy', true)
    permits.bound(4)
    permits.release('proxy')
    assert.equal(permits.take('other', false), false)
  })
})
