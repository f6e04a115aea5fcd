import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dateOf } from './http-date.ts'

test('a date is that of its second, forwards and backwards', () => {
  assert.equal(dateOf(784_111_777_000), 'Sun, 06 Nov 1994 08:49:37 GMT')
  assert.equal(dateOf(784_111_777_999), 'Sun, 06 Nov 1994 08:49:37 GMT')
  assert.equal(dateOf(784_111_778_000), 'Sun, 06 Nov 1994 08:49:38 GMT')
  assert.equal(dateOf(784_111_776_999), 'Sun, 06 Nov 1994 08:49:36 GMT')
})
