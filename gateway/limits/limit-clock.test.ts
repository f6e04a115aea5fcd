import assert from 'node:assert/strict'
import { test } from 'node:test'
import { steadyClock } from './limit-clock.ts'

test('the steady clock tells epoch milliseconds and does not follow a wall clock that steps', (context) => {
  const clock = steadyClock()
  const beforeMs = Date.now()
  const first = clock()
  assert.ok(first > beforeMs - 100 && first < Date.now() + 100)
  context.mock.method(Date, 'now', () => 0)
  const second = clock()
  assert.ok(second >= first && second - first < 10_000)
})
