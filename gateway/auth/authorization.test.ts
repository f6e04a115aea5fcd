import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { challenge, readBearer } from './authorization.ts'
import { tokenFault } from './token-fault.ts'

for (const [value, expected] of [
  [undefined, 'missing'],
  ['Bearer abc', { token: 'abc' }],
  ['bearer abc', { token: 'abc' }],
  ['BEARER abc', { token: 'abc' }],
  ['Bearer   abc', { token: 'abc' }],
  ['Bearer aA0-._~+/==', { token: 'aA0-._~+/==' }],
  [`Bearer ${'a'.repeat(8192)}`, { token: 'a'.repeat(8192) }],
  [`Bearer ${'a'.repeat(8193)}`, 'malformed'],
  ['', 'malformed'],
  [' ', 'malformed'],
  [' Bearer abc', 'malformed'],
  ['Bearer', 'malformed'],
  ['Bearer ', 'malformed'],
  ['Bearer =', 'malformed'],
  ['Bearer a=b', 'malformed'],
  ['Bearer a b', 'malformed'],
  ['Bearer a,Bearer b', 'malformed'],
  ['Bearer a, Basic b', 'malformed'],
  ['Bearer abc ', 'malformed'],
  ['Bearer abc\n', 'malformed'],
  ['Bearer "abc"', 'malformed'],
  ['Bearer a\u00e9', 'malformed'],
  ['Bearer\tabc', 'malformed'],
  ['Bearer,abc', 'malformed'],
  ['Bearer=abc', 'malformed'],
  ['Basic,abc', 'malformed'],
  ['Basic YTpi', 'other'],
  ['Basic', 'other'],
  ['DPoP abc', 'other'],
  ['Bearerabc', 'other'],
  ['Bearer2 abc', 'other'],
  ['Bear abc', 'other'],
] as const) {
  const shown =
    value !== undefined && value.length > 100
      ? `Bearer and ${value.length - 7} characters`
      : JSON.stringify(value)
  test(`Authorization ${shown} is read as ${typeof expected === 'string' ? expected : 'a token'}`, () => {
    assert.deepEqual(readBearer(value), expected)
  })
}

test('no value makes reading throw, and a token that is read has only characters of a b64token', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string().map((rest) => `Bearer ${rest}`),
      ),
      (value) => {
        const reading = readBearer(value)
        if (typeof reading !== 'string') assert.match(reading.token, /^[A-Za-z0-9._~+/-]+=*$/)
      },
    ),
  )
})

test('challenges are spelled as RFC 6750 section 3 has them', () => {
  assert.equal(challenge('missing'), 'Bearer realm="api"')
  assert.equal(
    challenge('invalid_request', 'The Authorization header is malformed'),
    'Bearer realm="api", error="invalid_request", error_description="The Authorization header is malformed"',
  )
  assert.equal(
    challenge('invalid_token', 'The access token expired'),
    'Bearer realm="api", error="invalid_token", error_description="The access token expired"',
  )
  assert.equal(
    challenge('insufficient_scope', 'transfers:write accounts:read'),
    'Bearer realm="api", error="insufficient_scope", scope="transfers:write accounts:read"',
  )
})

test('a challenge leaves out what would break out of its quotes', () => {
  assert.equal(
    challenge('invalid_token', 'a"b\\c\r\nd\u00e9e'),
    'Bearer realm="api", error="invalid_token", error_description="abcde"',
  )
})

test('the public sentence of every fault has only characters that a challenge may have', () => {
  for (const reason of ['malformed', 'expired', 'invalid', 'revoked', 'keys_unavailable'] as const) {
    assert.match(tokenFault(reason, '').description, /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/)
  }
})
