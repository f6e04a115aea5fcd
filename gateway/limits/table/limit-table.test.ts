import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { makeRow } from './limit-row.test-support.ts'
import type { LimitRow } from './limit-row.ts'
import { rateLimit, rateLimitPolicy } from './limit-table.ts'

function row(changes: Partial<LimitRow> = {}): LimitRow {
  return makeRow({
    name: 'login',
    path: '/api/login',
    limit: 5,
    purpose: 'slow down guessing',
    ...changes,
  })
}

describe('the RateLimit fields', () => {
  test('name the policy with its quota and its window in seconds', () => {
    assert.equal(rateLimitPolicy(row()), '"login";q=5;w=60')
    assert.equal(
      rateLimitPolicy(row({ name: 'verify', limit: 3, windowMs: 86_400_000 })),
      '"verify";q=3;w=86400',
    )
  })

  test('tell what remains and until when', () => {
    const login = row()
    assert.equal(rateLimit(login, { allowed: true, remaining: 4, resetSeconds: 60 }), '"login";r=4;t=60')
    assert.equal(rateLimit(login, { allowed: false, remaining: 0, resetSeconds: 37 }), '"login";r=0;t=37')
  })

  test('quote a name as a Structured Field String', () => {
    assert.equal(rateLimitPolicy(row({ name: 'a "b" \\ c;d=1' })), '"a \\"b\\" \\\\ c;d=1";q=5;w=60')
  })

  test('refuse a name that a Structured Field String cannot hold', () => {
    for (const name of ['größe', 'a\nb', 'a\u007f']) {
      assert.throws(() => rateLimitPolicy(row({ name })), { name: 'TypeError', message: /printable ASCII/ })
    }
  })
})
