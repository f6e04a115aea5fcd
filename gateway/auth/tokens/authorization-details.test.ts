import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withDetailsAsText } from './authorization-details.ts'
import { encode } from './issuer.test-support.ts'
import { parseToken } from './token.ts'

const AMOUNTS = '[{"type":"payment","amount":12345678901234567890.10}]'

function textOf(json: string, within?: 'token_introspection'): unknown {
  const claims = JSON.parse(json)
  const { authorization_details: text } = withDetailsAsText(
    within === undefined ? claims : claims[within],
    () => Buffer.from(json),
    within,
  )
  return text
}

test('authorization_details keep every digit, at the top and in a signed answer', () => {
  assert.equal(textOf(`{"sub":"a","authorization_details":${AMOUNTS}}`), AMOUNTS)
  assert.equal(textOf(`{"authorization\\u005fdetails":${AMOUNTS}}`), AMOUNTS)
  assert.equal(
    textOf(`{"token_introspection":{"authorization_details":${AMOUNTS}}}`, 'token_introspection'),
    AMOUNTS,
  )
})

test('authorization_details that are a text stay one, so that no issuer makes details of it by mistake', () => {
  assert.equal(textOf('{"authorization_details":"[]"}'), '"[]"')
})

test('a token keeps its details as a text, and claims without details stay the same object', () => {
  const token = (claims: string) => parseToken(['{"alg":"ES256"}', claims, 'x'].map(encode).join('.')).token
  assert.equal(token(`{"authorization_details":${AMOUNTS}}`)?.claims.authorization_details, AMOUNTS)
  const plain = token('{"sub":"a"}')
  assert.equal(plain?.claims, plain?.jws.payload)
})
