import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LineIndex } from './line-index.ts'

test('placeOf gives the line and column of an offset, and lineAt the text of a line, at the ends of the text too', () => {
  const index = new LineIndex('ab\r\n\ncd')
  const places = [0, 3, 4, 5, 7].map((offset) => Object.values(index.placeOf(offset)).join(':'))
  assert.deepEqual(places, ['1:1', '1:4', '2:1', '3:1', '3:3'])
  assert.deepEqual(
    [1, 2, 3, 4].map((line) => index.lineAt(line)),
    ['ab', '', 'cd', ''],
  )
  assert.deepEqual(new LineIndex('').placeOf(0), { line: 1, column: 1 })
})
