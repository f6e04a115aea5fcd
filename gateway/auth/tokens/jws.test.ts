import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeBase64url, decodeObject } from './jws.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

test('every byte sequence comes back from its canonical spelling', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 200 }), (bytes) => {
      assert.deepEqual(decodeBase64url(Buffer.from(bytes).toString('base64url')), Buffer.from(bytes))
    }),
  )
})

test('no two texts give the same bytes', () => {
  const text = fc.string({
    unit: fc.constantFrom(...ALPHABET, '+', '/', '=', '\n', ' '),
    minLength: 1,
    maxLength: 12,
  })
  fc.assert(
    fc.property(text, (candidate) => {
      const bytes = decodeBase64url(candidate)
      if (bytes !== undefined) assert.equal(bytes.toString('base64url'), candidate)
    }),
    { numRuns: 5_000 },
  )
})

for (const [what, text] of [
  ['an empty text', ''],
  ['padding', 'Zg=='],
  ['stray bits in the last character', 'Zh'],
  ['a length that no bytes have', 'Zm9vY'],
  ['the alphabet of plain base64', '+/+/'],
  ['a line break', 'Zm9v\nYmFy'],
  ['a character beyond ASCII', 'Zm9vé'],
] as const) {
  test(`${what} is refused`, () => assert.equal(decodeBase64url(text), undefined))
}

test('an object of 64 levels is read, its double members are found, and an object of more levels is refused', () => {
  const read = (levels: number, inner: string) => {
    const arrays = levels - 2
    const json = `{"a":${'['.repeat(arrays)}${inner}${']'.repeat(arrays)}}`
    return decodeObject(Buffer.from(json).toString('base64url'))
  }
  assert.equal(typeof read(64, '{"b":1}'), 'object')
  assert.equal(read(64, '{"b":1,"b":2}'), 'has a member twice in one object')
  for (const levels of [65, 12_000]) assert.equal(read(levels, '{"b":1}'), 'is nested deeper than 64 levels')
})
