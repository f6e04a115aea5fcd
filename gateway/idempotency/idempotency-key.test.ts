import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readIdempotencyKey } from './idempotency-key.ts'

describe('an idempotency key', () => {
  it('is the same key quoted and bare', () => {
    for (const [value, key] of [
      ['8e03978e-40d5-43e8-bc93-6894a57f9324', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
      ['"8e03978e-40d5-43e8-bc93-6894a57f9324"', '8e03978e-40d5-43e8-bc93-6894a57f9324'],
      ['12345', '12345'],
      ['a\\b', 'a\\b'],
      ['"a\\\\b"', 'a\\b'],
      ['!#$%&()*+-./:<=>?@[]^_`{|}~', '!#$%&()*+-./:<=>?@[]^_`{|}~'],
    ])
      assert.equal(readIdempotencyKey(value as string, 255), key)
  })

  it('has from one character to the most that a row allows', () => {
    assert.equal(readIdempotencyKey('a'.repeat(255), 255)?.length, 255)
    assert.equal(readIdempotencyKey(`"${'a'.repeat(255)}"`, 255)?.length, 255)
    assert.equal(readIdempotencyKey('a'.repeat(41), 40), undefined)
    assert.equal(readIdempotencyKey('', 255), undefined)
    assert.equal(readIdempotencyKey('""', 255), undefined)
  })

  it('has no spaces, quotes, commas, semicolons, parameters, or characters beyond ASCII', () => {
    for (const value of [
      'a b',
      '"a b"',
      'a,b',
      '"a,b"',
      'a;b',
      '"a";b=1',
      '"a\\"b"',
      '"a\\b"',
      '"a',
      'a"',
      'é',
      '\u0000',
      '"a""b"',
      "('a')\t",
    ])
      assert.equal(readIdempotencyKey(value, 255), undefined, value)
  })
})
