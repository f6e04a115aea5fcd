import { Type } from 'typebox'
import { byName, key, keys, text } from './key-types.ts'

const POINTER = {
  pattern: '^(?:/(?:[^/~]|~[01])*)+$',
  patternErrorMessage: 'must be JSON pointers (RFC 6901), such as "/amount"',
}
const MEMBER = Type.String({ ...POINTER, maxLength: 256 })
const MATCH = byName(MEMBER)

export const AUTHORIZATION_DETAILS = keys({
  type: text('`type` of the detail.', { required: true, maxLength: 256, examples: ['payment_initiation'] }),
  match: key(
    { ...MATCH, propertyNames: POINTER } as typeof MATCH,
    'JSON pointers into the detail, each with that of the member of the body that must have the same value. Numbers are compared by their decimal value; a text equals no number.',
    {
      required: true,
      minProperties: 1,
      maxProperties: 32,
      examples: [{ '/instructedAmount/amount': '/amount' }],
    },
  ),
})
