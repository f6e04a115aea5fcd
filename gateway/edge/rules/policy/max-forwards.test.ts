import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Field } from '../../syntax/field.ts'
import { endsHere, oneHopLess } from './max-forwards.ts'

const field = (value: string) => new Field('Max-Forwards', value)

it('Max-Forwards of 0 ends at the gateway, and any other goes on one less; what is no number stays', () => {
  for (const [value, ends, next] of [
    ['0', true, '0'],
    ['00', true, '0'],
    ['1', false, '0'],
    ['70', false, '69'],
    ['', false, ''],
    ['-1', false, '-1'],
    ['1, 2', false, '1, 2'],
    ['9'.repeat(16), false, '9'.repeat(16)],
  ] as const) {
    assert.equal(endsHere([new Field('Accept', '0'), field(value)]), ends, value)
    assert.equal(oneHopLess(field(value)).value, next)
  }
  assert.equal(endsHere([]), false)
})
