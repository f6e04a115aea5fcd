import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isOverShare } from './fair-share.ts'

/** Each caller takes as much as it can get, one after the other. */
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
  it('is bound by nothing as long as a quarter is free', () => {
    assert.equal(isOverShare({ own: 767, free: 257, max: 1024 }), false)
    assert.equal(isOverShare({ own: 768, free: 256, max: 1024 }), true)
  })

  it('leaves a quarter beside one caller, and half of the rest beside each further one', () => {
    assert.deepEqual(taken(1024, 4), [768, 129, 64, 32])
  })

  it('leaves room for someone who has nothing, as long as there is any', () => {
    assert.equal(isOverShare({ own: 0, free: 1, max: 1024 }), false)
    assert.equal(isOverShare({ own: 2, free: 1, max: 1024 }), true)
  })
})
