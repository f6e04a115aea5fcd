import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HexText } from './hex-text.ts'

test('every byte stands in its place, as Buffer writes it, whatever stood there before', () => {
  const text = new HexText('<####-##>')
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 3, maxLength: 5 }), (bytes) => {
      const hex = Buffer.from(bytes).toString('hex')
      assert.equal(text.of(bytes), `<${hex.slice(0, 4)}-${hex.slice(4, 6)}>`)
    }),
  )
})

test('a text that was made is not changed by the next one', () => {
  const text = new HexText('##')
  const first = text.of(Uint8Array.of(0xab))
  text.of(Uint8Array.of(0xcd))
  assert.equal(first, 'ab')
})
