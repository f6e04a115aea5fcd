import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { randomHex } from './random-hex.ts'

test('as many digits come as were asked for, and no text comes twice', () => {
  const seen = new Set<string>()
  fc.assert(
    fc.property(fc.integer({ min: 12, max: 2048 }), (count) => {
      const digits = randomHex(count)
      assert.match(digits, /^[0-9a-f]+$/)
      assert.equal(digits.length, count)
      for (let at = 0; at + 12 <= count; at += 12) {
        const part = digits.slice(at, at + 12)
        assert.equal(seen.has(part), false)
        seen.add(part)
      }
    }),
  )
})

test('every digit comes about as often as the others', () => {
  const counts = new Map<string, number>()
  for (const digit of Array.from({ length: 16_000 }, () => randomHex(1)))
    counts.set(digit, (counts.get(digit) ?? 0) + 1)
  assert.equal(counts.size, 16)
  // Ten standard deviations.
  for (const [digit, count] of counts) assert.ok(Math.abs(count - 1000) < 310, `${digit}: ${count}`)
})
