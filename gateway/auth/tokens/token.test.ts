import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { encode, es256Token, goodClaims, type Members, signText } from './issuer.test-support.ts'
import { parseToken, withDetailsAsText } from './token.ts'

const good = es256Token()
const [header = '', payload = '', signature = ''] = good.split('.')

test('a good token gives its algorithm, its kid and its claims', () => {
  const claims = goodClaims()
  const text = es256Token({ claims })
  const { token, fault } = parseToken(text)
  assert.equal(fault, undefined)
  const { jws, ...read } = token ?? assert.fail()
  assert.deepEqual(read, { algorithm: 'ES256', kid: 'ES256', type: 'at+jwt', claims })
  assert.equal(`${jws.signed}.${jws.signature.toString('base64url')}`, text)
})

test('each accepted algorithm is read, and the type in one spelling', () => {
  for (const alg of ['ES256', 'PS256', 'RS256', 'EdDSA']) {
    assert.equal(parseToken(es256Token({ header: { alg } })).token?.algorithm, alg)
  }
  assert.equal(parseToken(es256Token({ header: { alg: 'Ed25519' } })).token?.algorithm, 'EdDSA')
  for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/At+Jwt']) {
    assert.equal(parseToken(es256Token({ header: { typ } })).token?.type, 'at+jwt', typ)
  }
})

test('a token may leave its kid out', () => {
  assert.deepEqual(
    [parseToken(headed({ kid: undefined })).fault, parseToken(headed({ kid: undefined })).token?.kid],
    [undefined, undefined],
  )
})

function headed(members: Members): string {
  return es256Token({ header: members })
}

function spelled(headerText: string, payloadText: string = '{}'): string {
  return signText(`${encode(headerText)}.${encode(payloadText)}`)
}

const HEADER = '"alg":"ES256","typ":"at+jwt","kid":"k"'

/** A text that decodes to the same bytes with a forgiving decoder: the last character has other unused bits. */
function withStrayBits(part: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const changed = part.slice(0, -1) + alphabet[alphabet.indexOf(part.at(-1)!) ^ 1]
  assert.deepEqual(Buffer.from(changed, 'base64url'), Buffer.from(part, 'base64url'))
  return changed
}

// Lengths that leave unused bits, so that there is a stray spelling.
const looseHeader = encode(
  `{${HEADER}${' '.repeat(`{${HEADER}}`.length % 3 === 2 ? 0 : 2 - (`{${HEADER}}`.length % 3))}}`,
)
const loosePayload = encode('{"a":1} ')

const refusals: readonly (readonly [
  what: string,
  token: string,
  reason: 'malformed' | 'invalid',
  cause: RegExp,
])[] = [
  ['an empty text', '', 'malformed', /not three parts/],
  ['a text of two parts', `${header}.${payload}`, 'malformed', /not three parts/],
  ['a text of four parts', `${good}.${signature}`, 'malformed', /not three parts/],
  ['an encrypted token of five parts', `${good}.a.a`, 'malformed', /not three parts/],
  ['an empty header', `.${payload}.${signature}`, 'malformed', /header is not base64url/],
  ['an empty payload', `${header}..${signature}`, 'malformed', /payload is not base64url/],
  ['an empty signature', `${header}.${payload}.`, 'malformed', /signature is not base64url/],
  [
    'a padded header',
    signText(`${encode(`{${HEADER}}`)}=.${payload}`),
    'malformed',
    /header is not base64url/,
  ],
  ['a padded payload', signText(`${header}.${payload}=`), 'malformed', /payload is not base64url/],
  ['a padded signature', `${good}==`, 'malformed', /signature is not base64url/],
  [
    'stray bits in the header',
    signText(`${withStrayBits(looseHeader)}.${payload}`),
    'malformed',
    /header is not base64url/,
  ],
  [
    'stray bits in the payload',
    signText(`${header}.${withStrayBits(loosePayload)}`),
    'malformed',
    /payload is not base64url/,
  ],
  [
    'stray bits in the signature',
    `${header}.${payload}.${withStrayBits(signature)}`,
    'malformed',
    /signature is not base64url/,
  ],
  ['a signature in plain base64', `${header}.${payload}.+/+/`, 'malformed', /signature is not base64url/],
  [
    'a line break in the payload',
    signText(`${header}.${payload.slice(0, 8)}\n${payload.slice(8)}`),
    'malformed',
    /payload is not base64url/,
  ],
  ['a header that is not JSON', spelled('alg=ES256'), 'malformed', /header is not JSON$/],
  ['a header that is a list', spelled('["ES256"]'), 'malformed', /header is not a JSON object/],
  ['a header that is null', spelled('null'), 'malformed', /header is not a JSON object/],
  ['a header that is a string', spelled('"ES256"'), 'malformed', /header is not a JSON object/],
  ['a payload that is not JSON', spelled(`{${HEADER}}`, 'hello'), 'malformed', /payload is not JSON$/],
  ['a payload that is a token itself', spelled(`{${HEADER}}`, good), 'malformed', /payload is not JSON$/],
  ['a payload that is a list', spelled(`{${HEADER}}`, '[]'), 'malformed', /payload is not a JSON object/],
  [
    'a payload that begins with a byte order mark',
    spelled(`{${HEADER}}`, '\ufeff{}'),
    'malformed',
    /payload is not JSON$/,
  ],
  [
    'a payload that is not UTF-8',
    signText(`${header}.${encode(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))}`),
    'malformed',
    /payload is not UTF-8/,
  ],
  [
    'a header that names alg twice',
    spelled(`{"alg":"none",${HEADER}}`),
    'malformed',
    /header has a member twice/,
  ],
  [
    'a payload that names sub twice',
    spelled(`{${HEADER}}`, '{"sub":"a","sub":"b"}'),
    'malformed',
    /payload has a member twice/,
  ],
  [
    'a name given twice in two spellings',
    spelled(`{${HEADER}}`, '{"sub":"a","s\\u0075b":"b"}'),
    'malformed',
    /payload has a member twice/,
  ],
  ['alg none', headed({ alg: 'none' }), 'invalid', /alg "none"/],
  ['alg none in capitals', headed({ alg: 'NONE' }), 'invalid', /alg "NONE"/],
  ['alg HS256', headed({ alg: 'HS256' }), 'invalid', /alg "HS256"/],
  ['alg ES384', headed({ alg: 'ES384' }), 'invalid', /alg "ES384"/],
  ['alg es256 in small letters', headed({ alg: 'es256' }), 'invalid', /alg "es256"/],
  ['alg Ed448', headed({ alg: 'Ed448' }), 'invalid', /alg "Ed448"/],
  ['no alg', headed({ alg: undefined }), 'invalid', /alg nothing/],
  ['alg as a list', headed({ alg: ['ES256'] }), 'invalid', /alg \["ES256"\]/],
  ['typ as a list', headed({ typ: ['at+jwt'] }), 'invalid', /typ \["at\+jwt"\]/],
  ['an empty kid', headed({ kid: '' }), 'invalid', /names no key/],
  ['a kid that is a number', headed({ kid: 1 }), 'invalid', /names no key/],
  ['a kid that is null', headed({ kid: null }), 'invalid', /names no key/],
  ['a very long kid', headed({ kid: 'k'.repeat(257) }), 'invalid', /kid has 257 characters, more than 256/],
  ['crit', headed({ crit: ['exp'], exp: 1 }), 'invalid', /header has crit/],
  ['an empty crit', headed({ crit: [] }), 'invalid', /header has crit/],
  ['jku', headed({ jku: 'https://evil.example/jwks.json' }), 'invalid', /header has jku/],
  ['an embedded jwk', headed({ jwk: { kty: 'EC' } }), 'invalid', /header has jwk/],
  ['a jwk that is null', headed({ jwk: null }), 'invalid', /header has jwk/],
  ['x5u', headed({ x5u: 'https://evil.example/cert.pem' }), 'invalid', /header has x5u/],
  ['x5c', headed({ x5c: ['MIIB'] }), 'invalid', /header has x5c/],
  ['b64', headed({ b64: true }), 'invalid', /header has b64/],
  ['zip', headed({ zip: 'DEF' }), 'invalid', /header has zip/],
]

for (const [what, token, reason, cause] of refusals) {
  test(`a token with ${what} is ${reason}`, () => {
    const { fault } = parseToken(token)
    assert.equal(fault?.reason, reason)
    assert.match(fault.cause, cause)
  })
}

test('a name given twice deeper down is refused too: a binding must not have two readings', () => {
  for (const claims of [
    '{"cnf":{"jkt":"a","jkt":"b"}}',
    '{"a":[{"b":[{"c":1,"c":1}]}]}',
    '{"a":{"b":1,"\\u0062":1}}',
  ]) {
    assert.match(parseToken(spelled(`{${HEADER}}`, claims)).fault?.cause ?? '', /payload has a member twice/)
  }
})

test('braces, colons, quotes and nested objects in the payload are not taken for members given twice', () => {
  const claims = {
    text: '{":}[',
    escaped: '\\":"',
    nested: { a: 1, b: [{ c: 1, d: { e: 2 } }] },
    'a:b"': 1,
    __proto: 1,
  }
  assert.deepEqual(parseToken(es256Token({ claims })).token?.claims, claims)
})

test('a member called __proto__ changes nothing', () => {
  const { token } = parseToken(spelled(`{${HEADER}}`, '{"__proto__":{"sub":"a"}}'))
  assert.equal(Object.getPrototypeOf(token?.claims), Object.prototype)
  assert.equal(token?.claims.sub, undefined)
})

test('every JSON object is read as it was written', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (claims) => {
      const written = JSON.stringify(claims)
      if (written.length < 4_000) {
        assert.equal(JSON.stringify(parseToken(spelled(`{${HEADER}}`, written)).token?.claims), written)
      }
    }),
  )
})

test('any object with a name given twice is refused, whichever name it is', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1, maxKeys: 5 }),
      fc.nat(),
      (claims, pick) => {
        const members = Object.entries(claims).map(
          ([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
        )
        const twice = [...members, members[pick % members.length]].join(',')
        if (twice.length < 4_000)
          assert.match(parseToken(spelled(`{${HEADER}}`, `{${twice}}`)).fault?.cause ?? '', /twice/)
      },
    ),
  )
})

test('a header that was read before is read the same, after a thousand others too', () => {
  const first = parseToken(good)
  for (let n = 0; n < 1000; n++) {
    const other = Buffer.from(JSON.stringify({ alg: 'ES256', typ: 'at+jwt', kid: `k${n}` })).toString(
      'base64url',
    )
    assert.equal(parseToken(`${other}.${payload}.${signature}`).token?.kid, `k${n}`)
    if (n % 100 === 0) assert.deepEqual(parseToken(good), first)
  }
  assert.deepEqual(parseToken(good), first)
})

test('no text makes parsing throw', () => {
  const character = fc.constantFrom(...'abcXYZ019-_.={}"', 'é', '\n')
  fc.assert(
    fc.property(fc.string({ unit: character, maxLength: 200 }), (text) => {
      assert.ok(parseToken(text).fault)
    }),
  )
})

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

test('authorization_details that are a text stay a text, so that no issuer makes details of a text by mistake', () => {
  assert.equal(textOf('{"authorization_details":"[]"}'), '"[]"')
})

test('a token keeps its details as a text, and claims without details stay the same object', () => {
  const token = (claims: string) => parseToken(['{"alg":"ES256"}', claims, 'x'].map(encode).join('.')).token
  assert.equal(token(`{"authorization_details":${AMOUNTS}}`)?.claims.authorization_details, AMOUNTS)
  const plain = token('{"sub":"a"}')
  assert.equal(plain?.claims, plain?.jws.payload)
})
