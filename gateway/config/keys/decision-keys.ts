import { Type } from 'typebox'
import { byName, choice, integer, key, keys, list, text } from './key-types.ts'
import { SPAN_OR_OFF } from './shared-keys.ts'

const POINTER = '^(?:/(?:[^/~]|~[01])*)+$'
const MEMBER = Type.String({
  maxLength: 256,
  pattern: POINTER,
  patternErrorMessage: 'must be a JSON pointer (RFC 6901), such as "/amount"',
})
const MATCH = byName(MEMBER)

export const AUTHORIZATION_DETAILS = keys({
  type: text('`type` of the detail.', { required: true, maxLength: 256, examples: ['payment_initiation'] }),
  match: key(
    {
      ...MATCH,
      propertyNames: {
        pattern: POINTER,
        patternErrorMessage: 'must have JSON pointers (RFC 6901) as its keys',
      },
    } as typeof MATCH,
    'Pairs of JSON pointers: the name points into the detail, the value into the body. The two members must be equal. Numbers are compared by their decimal value; a string never equals a number.',
    {
      required: true,
      minProperties: 1,
      maxProperties: 32,
      examples: [{ '/instructedAmount/amount': '/amount' }],
    },
  ),
})

export const DECISION = keys({
  url: text('The evaluation endpoint: https, or http on this machine.', {
    required: true,
    examples: ['https://decider.example/access/v1/evaluation'],
  }),
  timeoutMs: integer('How long an answer may take. After that the request gets 503.', {
    range: [10, 30_000],
    default: 200,
  }),
  cache: key(SPAN_OR_OFF, 'How long a decision is used again for an identical question, at most 5m.', {
    default: 'off',
    examples: ['10s'],
  }),
  onFailure: choice(['deny'], 'Without a decision the request gets 503.', { default: 'deny' }),
  body: list(MEMBER, 'The members of the JSON body that the decider gets, as JSON pointers.', {
    maxItems: 32,
    uniqueItems: true,
    default: [],
    examples: [['/amount']],
  }),
})
