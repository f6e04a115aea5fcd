import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { dateOf, timestampOf } from './timestamp.ts'

test('a timestamp is what toISOString gives, in whatever order the times come', () => {
  const epochMs = fc.integer({ min: -1e12, max: 4e12 })
  fc.assert(
    fc.property(fc.array(fc.tuple(epochMs, fc.integer({ min: 0, max: 2500 }))), (times) => {
      for (const [start, later] of times) {
        assert.equal(timestampOf(start), new Date(start).toISOString())
        assert.equal(timestampOf(start + later), new Date(start + later).toISOString())
      }
    }),
  )
})

test('a date is the date of its second, whether time goes forwards or backwards', () => {
  assert.equal(dateOf(784_111_777_000), 'Sun, 06 Nov 1994 08:49:37 GMT')
  assert.equal(dateOf(784_111_777_999), 'Sun, 06 Nov 1994 08:49:37 GMT')
  assert.equal(dateOf(784_111_778_000), 'Sun, 06 Nov 1994 08:49:38 GMT')
  assert.equal(dateOf(784_111_776_999), 'Sun, 06 Nov 1994 08:49:36 GMT')
})
