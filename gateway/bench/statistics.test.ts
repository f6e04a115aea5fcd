import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ratioOf, spreadOf } from './statistics.ts'

describe('what several rounds measured', () => {
  it('has a median of an odd and of an even number of values, in any order', () => {
    assert.deepEqual(spreadOf([30, 10, 20]), { median: 20, min: 10, max: 30 })
    assert.deepEqual(spreadOf([100, 9, 20, 10]), { median: 15, min: 9, max: 100 })
    assert.throws(() => spreadOf([]), /no value/)
  })

  it('is compared round by round', () => {
    const one = new Map([
      [1, 10],
      [2, 30],
      [3, 12],
    ])
    const other = new Map([
      [1, 20],
      [2, 60],
      [3, 12],
    ])
    assert.deepEqual(ratioOf(one, other), { median: 0.5, min: 0.5, max: 1 })
  })

  it('leaves out rounds that lack one of the two', () => {
    assert.deepEqual(
      ratioOf(
        new Map([
          [1, 5],
          [2, 8],
        ]),
        new Map([[2, 4]]),
      ),
      { median: 2, min: 2, max: 2 },
    )
    assert.equal(ratioOf(new Map([[1, 5]]), new Map([[2, 4]])), undefined)
  })
})
