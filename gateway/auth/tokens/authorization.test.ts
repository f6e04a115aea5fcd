import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { challenges, readAccessToken, schemeOf } from './authorization.ts'
import { tokenFault } from './verification.ts'

for (const [value, expected] of [
  [undefined, 'missing'],
  ['Bearer abc', { scheme: 'bearer', token: 'abc' }],
  ['bearer abc', { scheme: 'bearer', token: 'abc' }],
  ['BEARER abc', { scheme: 'bearer', token: 'abc' }],
  ['Bearer   abc', { scheme: 'bearer', token: 'abc' }],
  ['Bearer aA0-._~+/==', { scheme: 'bearer', token: 'aA0-._~+/==' }],
  [`Bearer ${'a'.repeat(8192)}`, { scheme: 'bearer', token: 'a'.repeat(8192) }],
  [`Bearer ${'a'.repeat(8193)}`, 'too long'],
  [`DPoP ${'.'.repeat(9000)}`, 'too long'],
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
  ['DPoP abc', { scheme: 'dpop', token: 'abc' }],
  ['dpop abc', { scheme: 'dpop', token: 'abc' }],
  [
    'DPoP  Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU',
    { scheme: 'dpop', token: 'Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU' },
  ],
  ['DPoP', 'malformed'],
  ['DPoP a, Bearer a', 'malformed'],
  ['DPoPabc', 'other'],
  ['Bearerabc', 'other'],
  ['Bearer2 abc', 'other'],
  ['Bear abc', 'other'],
] as const) {
  const shown =
    value !== undefined && value.length > 100
      ? `Bearer and ${value.length - 7} characters`
      : JSON.stringify(value)
  test(`Authorization ${shown} is read as ${typeof expected === 'string' ? expected : 'a token'}`, () => {
    assert.deepEqual(readAccessToken(value, 8192), expected)
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
        const reading = readAccessToken(value, 8192)
        if (typeof reading !== 'string') assert.match(reading.token, /^[A-Za-z0-9._~+/-]+=*$/)
      },
    ),
  )
})

test('the scheme is read from malformed credentials too', () => {
  for (const [value, scheme] of [
    ['Bearer', 'bearer'],
    ['dpop a b', 'dpop'],
    ['Basic YTpi', undefined],
    [' Bearer a', undefined],
    [undefined, undefined],
  ] as const) {
    assert.equal(schemeOf(value), scheme)
  }
})

const PLAIN_BEARER = 'Bearer realm="api"'
const PLAIN_DPOP = 'DPoP algs="ES256 PS256 EdDSA Ed25519"'

/** The two challenges, each in a field of its own. */
function pair(...refused: Parameters<typeof challenges>): readonly (string | undefined)[] {
  const [first, bearer, second, dpop, ...more] = challenges(...refused)
  assert.deepEqual([first, second, more], ['WWW-Authenticate', 'WWW-Authenticate', []])
  return [bearer, dpop]
}

test('RFC 9449 section 7.2: without credentials both schemes are offered, and RFC 6750 section 3.1: without an error', () => {
  assert.deepEqual(pair(), [PLAIN_BEARER, PLAIN_DPOP])
})

test('RFC 6750 section 3.1: what is wrong with a bearer token is told by the Bearer challenge alone', () => {
  assert.deepEqual(
    pair({ error: 'invalid_token', description: 'The access token expired', scheme: 'bearer' }),
    [`${PLAIN_BEARER}, error="invalid_token", error_description="The access token expired"`, PLAIN_DPOP],
  )
  assert.deepEqual(
    pair({ error: 'insufficient_scope', scope: 'transfers:write accounts:read', scheme: 'bearer' }),
    [`${PLAIN_BEARER}, error="insufficient_scope", scope="transfers:write accounts:read"`, PLAIN_DPOP],
  )
})

test('RFC 9449 section 7.1: what is wrong with a DPoP token or its proof is told by the DPoP challenge alone', () => {
  const algs = 'algs="ES256 PS256 EdDSA Ed25519"'
  for (const error of [
    'invalid_token',
    'invalid_dpop_proof',
    'use_dpop_nonce',
    'insufficient_scope',
  ] as const) {
    assert.deepEqual(pair({ error, scheme: 'dpop' }), [PLAIN_BEARER, `DPoP error="${error}", ${algs}`])
  }
  assert.deepEqual(
    pair({ error: 'invalid_token', description: 'Invalid DPoP key binding', scheme: 'dpop' }),
    [PLAIN_BEARER, `DPoP error="invalid_token", error_description="Invalid DPoP key binding", ${algs}`],
  )
})

test('RFC 9449 section 7.2: where nobody knows the scheme both challenges tell what is wrong', () => {
  assert.deepEqual(pair({ error: 'invalid_request', description: 'No', scheme: undefined }), [
    `${PLAIN_BEARER}, error="invalid_request", error_description="No"`,
    'DPoP error="invalid_request", error_description="No", algs="ES256 PS256 EdDSA Ed25519"',
  ])
})

test('a token keeps none of the head that it came with in memory', () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as NodeJS.GCFunction
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = used()
  const readings = Array.from({ length: 500 }, (_, n) => {
    const head = Buffer.from(`Bearer token${String(n).padStart(500, '0')}\r\n${'x'.repeat(16_000)}`).toString(
      'latin1',
    )
    return readAccessToken(head.slice(0, head.indexOf('\r')), 8192)
  })
  assert.ok(used() - before < 500 * 2000)
  assert.equal(readings.length, 500)
})

test('a challenge leaves out what would break out of its quotes', () => {
  const [bearer] = pair({
    error: 'invalid_token',
    description: 'a"b\\c\r\nd\u00e9e',
    scope: 'x"y',
    scheme: 'bearer',
  })
  assert.equal(bearer, `${PLAIN_BEARER}, error="invalid_token", error_description="abcde", scope="xy"`)
})

test('the public sentence of every fault has only characters that a challenge may have', () => {
  for (const reason of ['malformed', 'expired', 'invalid', 'revoked', 'keys_unavailable'] as const) {
    assert.match(tokenFault(reason, '').description, /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/)
  }
})
