import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ANY_CHARACTER } from '../../e2e/any-character.ts'
import { readClaims as readVerification } from './claims.ts'
import {
  AUDIENCE,
  goodClaims,
  ISSUER,
  type Members,
  NOW_MS,
  NOW_SECONDS,
  RULES,
} from './issuer.test-support.ts'

const JKT = '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I'

function readClaims(...args: Parameters<typeof readVerification>) {
  const reading = readVerification(...args)
  return { ...reading, ...reading.verification }
}

function read(changes: Members = {}) {
  return readClaims(goodClaims(changes), RULES, NOW_MS)
}

test('a session token proves a user and no client', () => {
  const { principal, expiresAtMs } = read()
  assert.deepEqual(principal, {
    method: 'bearer',
    subject: 'user-1',
    client: undefined,
    session: 'session-1',
    sessionName: undefined,
    expiresAtMs: NOW_MS + 610_000,
    scopes: new Set(['accounts:read', 'transfers:write']),
    scope: 'accounts:read transfers:write',
    acr: undefined,
    authenticatedAtMs: undefined,
    authorizationDetails: undefined,
    key: 'user:user-1',
    limitKey: 'p:user:user-1',
  })
  assert.equal(expiresAtMs, NOW_MS + 610_000)
  assert.ok(Object.isFrozen(principal))
})

test('a token that a client got for a user proves both', () => {
  const { principal } = read({ client_id: 'mobile-app' })
  assert.equal(principal?.subject, 'user-1')
  assert.equal(principal?.client, 'mobile-app')
  assert.equal(principal?.key, 'user:user-1')
})

test('a machine whose sub is its client_id is a client and no user', () => {
  const { principal } = read({ sub: 'bank-b', client_id: 'bank-b', sid: undefined })
  assert.equal(principal?.subject, undefined)
  assert.equal(principal?.client, 'bank-b')
  assert.equal(principal?.session, undefined)
  assert.equal(principal?.key, 'client:bank-b')
})

test('a user called session is a user', () => {
  const { principal } = read({ sub: 'session', client_id: 'session' })
  assert.equal(principal?.subject, 'session')
  assert.equal(principal?.client, undefined)
  assert.equal(principal?.key, 'user:session')
})

test('a user and a machine of the same id never share a key', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[\x21-\x7e]{1,20}$/), (id) => {
      // This name means one of our own sessions.
      fc.pre(id !== 'session')
      for (const [user, machine] of [
        [id, id],
        [`client:${id}`, id],
        [id, `user:${id}`],
      ]) {
        const one = read({ sub: user, client_id: 'app\x7e'.repeat(9) }).principal
        const other = read({ sub: machine, client_id: machine }).principal
        assert.ok(one !== undefined && other !== undefined)
        assert.notEqual(one.key, other.key)
      }
    }),
  )
})

test('client_id, scope and sid may be left out', () => {
  const { principal } = read({ client_id: undefined, scope: undefined, sid: undefined })
  assert.equal(principal?.client, undefined)
  assert.equal(principal?.session, undefined)
  assert.equal(principal?.scope, '')
  assert.deepEqual(principal?.scopes, new Set())
})

for (const [what, changes] of [
  ['an audience list that names us', { aud: ['https://other.example', AUDIENCE] }],
  ['an iat 10 s in the future', { iat: NOW_SECONDS + 10 }],
  ['an nbf 10 s in the future', { nbf: NOW_SECONDS + 10 }],
  ['times with fractions', { iat: NOW_SECONDS - 0.5, exp: NOW_SECONDS + 0.001 }],
  ['a life of exactly 24 h', { iat: NOW_SECONDS, exp: NOW_SECONDS + 86_400 }],
  ['ids of 256 characters', { sub: 's'.repeat(256), sid: 't'.repeat(256), client_id: 'c'.repeat(256) }],
  ['every character a scope may have', { scope: '!#[]~ a:b/c.d' }],
] as const) {
  test(`a token with ${what} is accepted`, () => assert.ok(read(changes).principal))
}

const UNSAFE = ['', 'a b', 'a\r\nX-Auth-Scope: admin', 'a\tb', 'a\0', 'ü', '\ud800', '\x7f']

const refusals: readonly (readonly [what: string, changes: Members, cause: RegExp])[] = [
  ['another iss', { iss: `${ISSUER}/` }, /^iss/],
  ['no iss', { iss: undefined }, /^iss/],
  ['iss as a list', { iss: [ISSUER] }, /^iss/],
  ['another aud', { aud: 'https://other.example' }, /^aud/],
  ['an aud of which ours is a part', { aud: `${AUDIENCE}/admin` }, /^aud/],
  ['no aud', { aud: undefined }, /^aud/],
  ['an empty aud', { aud: [] }, /^aud/],
  ['an aud list without us', { aud: ['https://other.example'] }, /^aud/],
  ['an aud list with a number', { aud: [AUDIENCE, 1] }, /^aud is neither/],
  ['an aud list in a list', { aud: [[AUDIENCE]] }, /^aud is neither/],
  ['an aud object', { aud: { [AUDIENCE]: true } }, /^aud is neither/],
  ['a cnf with a member that is not checked', { cnf: { jkt: JKT, kid: 'k' } }, /^cnf/],
  ['an empty cnf', { cnf: {} }, /^cnf/],
  ['a cnf that is null', { cnf: null }, /^cnf/],
  ['no sub', { sub: undefined }, /^sub/],
  ['a sub that is a number', { sub: 1 }, /^sub/],
  ['no jti', { jti: undefined }, /^jti/],
  ['an empty jti', { jti: '' }, /^jti/],
  ['a jti that is a number', { jti: 1 }, /^jti/],
  ['a sid that would be two in a list of sessions', { sid: 'mine,another' }, /^sid/],
  ['a sid that is null', { sid: null }, /^sid/],
  ['a client_id that is a list', { client_id: ['a'] }, /^client_id/],
  ['a scope that is a number', { scope: 1 }, /^scope/],
  ['a scope that is an object', { scope: { 'accounts:read': true } }, /^scope/],
  ['a scope list with a number', { scope: ['a', 1] }, /^scope/],
  ['a scope list with a list', { scope: [['a']] }, /^scope/],
  ['a scope list with a name that would be two scopes', { scope: ['a b'] }, /^scope/],
  ['a scope list with a quote', { scope: ['a"b'] }, /^scope/],
  ['a scope with a tab', { scope: 'a\tb' }, /^scope/],
  ['a scope with a quote', { scope: 'a"b' }, /^scope/],
  ['a scope with a backslash', { scope: 'a\\b' }, /^scope/],
  ['a scope with a line break', { scope: 'a\r\nX-Auth-Subject: root' }, /^scope/],
  ['a scope that ends in a line break', { scope: 'a\n' }, /^scope/],
  ['a scope beyond ASCII', { scope: 'größe' }, /^scope/],
  ['no exp', { exp: undefined }, /^exp/],
  ['an exp that is a string', { exp: String(NOW_SECONDS + 600) }, /^exp/],
  ['an exp that is null', { exp: null }, /^exp/],
  ['an infinite exp', { exp: Number.POSITIVE_INFINITY }, /^exp/],
  ['no iat', { iat: undefined }, /^iat/],
  ['an iat that is a string', { iat: String(NOW_SECONDS) }, /^iat/],
  [
    'an iat 11 s in the future',
    { iat: NOW_SECONDS + 11 },
    /^iat is 11 s ahead of our clock; 10 s are allowed$/,
  ],
  ['an nbf that is a string', { nbf: String(NOW_SECONDS) }, /^nbf/],
  ['an nbf that is null', { nbf: null }, /^nbf/],
  [
    'an nbf 11 s in the future',
    { nbf: NOW_SECONDS + 11 },
    /^nbf is 11 s ahead of our clock; 10 s are allowed$/,
  ],
  ...['sub', 'client_id'].flatMap((name) =>
    ['', '\ud800', 'a\udc00b'].map(
      (value) => [`${name} ${JSON.stringify(value)}`, { [name]: value }, new RegExp(`^${name}`)] as const,
    ),
  ),
  ...['sub', 'sid', 'client_id'].map(
    (name) =>
      [
        `a ${name} of 257 characters`,
        { [name]: 'x'.repeat(257) },
        new RegExp(`^${name} has 257 characters, more than 256$`),
      ] as const,
  ),
  ...['sid'].flatMap((name) =>
    UNSAFE.map(
      (value) =>
        [`${name} ${JSON.stringify(value).slice(0, 40)}`, { [name]: value }, new RegExp(`^${name}`)] as const,
    ),
  ),
]

for (const [what, changes, cause] of refusals) {
  test(`a token with ${what} is invalid`, () => {
    const { fault } = read(changes)
    assert.equal(fault?.reason, 'invalid')
    assert.match(fault.cause, cause)
    assert.equal(fault.description, 'The access token is invalid')
  })
}

test('a token that lives for more than 24 h is invalid, and its caller is told why', () => {
  for (const changes of [{ iat: NOW_SECONDS, exp: NOW_SECONDS + 86_401 }, { iat: NOW_SECONDS - 85_801 }]) {
    const { fault } = read(changes)
    assert.equal(fault?.reason, 'invalid')
    assert.match(fault.cause, /^lives 86401 s \(exp - iat\), more than 86400: shorten it at the issuer$/)
    assert.equal(fault.description, 'The access token lives for more than 24 hours')
  }
})

for (const [scope, expected] of [
  ['', ''],
  [null, ''],
  [' ', ''],
  ['a  b', 'a b'],
  [' a b ', 'a b'],
  [[], ''],
  [['a', 'b:c'], 'a b:c'],
  [['', 'a'], 'a'],
] as const) {
  test(`the scope ${JSON.stringify(scope)} is the scopes "${expected}"`, () => {
    const { principal } = read({ scope })
    assert.equal(principal?.scope, expected)
    assert.deepEqual(principal.scopes, new Set(expected === '' ? [] : expected.split(' ')))
  })
}

test('a sub and a client_id of any text are percent-encoded, and visible ASCII except % stays as it is', () => {
  for (const [id, expected] of [
    ['auth0|123!#"', 'auth0|123!#"'],
    ['Zoë Müller', 'Zo%C3%AB%20M%C3%BCller'],
    ['a%20b', 'a%2520b'],
    ['a b', 'a%20b'],
    ['a\r\nX-Auth-Scope: admin\0\x7f', 'a%0D%0AX-Auth-Scope:%20admin%00%7F'],
    ['\u{1f600}', '%F0%9F%98%80'],
  ] as const) {
    const user = read({ sub: id, client_id: id === 'a b' ? undefined : 'app' }).principal
    assert.deepEqual([user?.subject, user?.key], [expected, `user:${expected}`])
    assert.equal(read({ client_id: id }).principal?.client, expected)
    const machine = read({ sub: id, client_id: id }).principal
    assert.deepEqual(
      [machine?.subject, machine?.client, machine?.key],
      [undefined, expected, `client:${expected}`],
    )
  }
  const longest = read({ sub: '\u{1f600}'.repeat(256) }).principal?.subject
  assert.equal(longest, '%F0%9F%98%80'.repeat(256))
})

test('two names are never encoded alike, and each can be read back', () => {
  const id = fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 64 })
  const piece = fc.constantFrom('%', '%25', '%41', 'A', ' ', '%20', 'é', 'e\u0301')
  const text = fc.oneof(
    id,
    fc.array(piece, { minLength: 1 }).map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(text, text, (one, other) => {
      const encoded = [one, other].map((sub) => read({ sub, client_id: 'app\x7e' }).principal?.subject ?? '')
      assert.deepEqual(encoded.map(decodeURIComponent), [one, other])
      assert.equal(encoded[0] === encoded[1], one === other)
    }),
  )
})

test('a token expires at the millisecond at which the tolerance after its exp is over', () => {
  const claims = goodClaims({ exp: NOW_SECONDS })
  const { principal, expiresAtMs } = readClaims(claims, RULES, NOW_MS + 9_999)
  assert.deepEqual([principal?.expiresAtMs, expiresAtMs], [NOW_MS + 10_000, NOW_MS + 10_000])
  const { fault } = readClaims(claims, RULES, NOW_MS + 42_999)
  assert.equal(fault?.reason, 'expired')
  assert.equal(fault.cause, 'exp was 42 s ago; 10 s are allowed')
  assert.equal(readClaims(claims, RULES, NOW_MS + 10_000).fault?.reason, 'expired')
  assert.equal(fault.description, 'The access token expired')
  assert.equal(
    readClaims({ ...claims, client_id: 'an app' }, RULES, NOW_MS + 10_000).fault?.client,
    'an%20app',
  )
})

test('a token tells what it is bound to', () => {
  assert.equal(read().binding, undefined)
  assert.deepEqual(read({ cnf: { jkt: JKT } }).binding, { jkt: JKT, thumbprint: undefined })
  assert.deepEqual(read({ cnf: { 'x5t#S256': JKT } }).binding, { jkt: undefined, thumbprint: JKT })
})

test('an issuer that is trusted for bound tokens only is not trusted for others (FAPI 2.0 section 5.3.4-5)', () => {
  const fapi = { ...RULES, boundOnly: true }
  const { fault } = readClaims(goodClaims(), fapi, NOW_MS)
  assert.deepEqual([fault?.reason, fault?.cause.slice(0, 7)], ['invalid', 'no cnf:'])
  assert.ok(readClaims(goodClaims({ cnf: { jkt: JKT } }), fapi, NOW_MS).principal)
})

test('a scope that an issuer may not grant is not granted, and does not go upstream', () => {
  const of = (scope: string | undefined, allowed: string[]) => {
    const confined = { ...RULES, own: false, scopes: new Set(allowed) }
    const { principal } = readClaims(goodClaims({ scope }), confined, NOW_MS)
    return [principal?.scope, [...(principal?.scopes ?? [])]]
  }
  assert.deepEqual(of('users:admin accounts:read x', ['accounts:read']), ['accounts:read', ['accounts:read']])
  assert.deepEqual(of('users:admin', []), ['', []])
  assert.deepEqual(of(undefined, ['users:admin']), ['', []])
  assert.deepEqual(of('b a', ['a', 'b']), ['b a', ['b', 'a']])
  assert.deepEqual(of('USERS:admin', ['users:admin']), ['', []])
})

test('users, clients and sessions of another issuer are names in its realm', () => {
  const foreign = { ...RULES, own: false }
  const of = (changes: Members) => readClaims(goodClaims(changes), foreign, NOW_MS).principal
  const user = of({ client_id: 'app' })
  assert.deepEqual(
    [user?.subject, user?.client, user?.session, user?.key],
    [`${ISSUER}#user-1`, `${ISSUER}#app`, `${ISSUER}#session-1`, `user:${ISSUER}#user-1`],
  )
  const machine = of({ sub: 'bank-b', client_id: 'bank-b', sid: undefined })
  assert.deepEqual(
    [machine?.subject, machine?.client, machine?.session, machine?.key],
    [undefined, `${ISSUER}#bank-b`, undefined, `client:${ISSUER}#bank-b`],
  )
  assert.equal(of({ client_id: 'session' })?.client, `${ISSUER}#session`)
  assert.equal(of({ client_id: undefined })?.client, undefined)
})

test('our own issuer cannot name users, clients and sessions of another', () => {
  const other = 'https://partner.example'
  const own = { ...RULES, others: [other] }
  for (const name of ['sub', 'client_id', 'sid']) {
    const of = (value: string) => readClaims(goodClaims({ [name]: value }), own, NOW_MS)
    const foreign = `${name} "${other}#alice" is in the realm of another issuer`
    assert.equal(of(`${other}#alice`).fault?.cause, foreign)
    assert.ok(of(other).principal)
    assert.ok(of(`${other}/me#alice`).principal)
  }
})

test('our own issuer cannot name users and clients of another by an id whose encoding looks like theirs', () => {
  const own = { ...RULES, others: ['https://id.example/realms/b%C3%A4nk'] }
  for (const name of ['sub', 'client_id']) {
    const { fault } = readClaims(goodClaims({ [name]: 'https://id.example/realms/bänk#alice' }), own, NOW_MS)
    assert.match(fault?.cause ?? 'accepted', /is in the realm of another issuer$/)
  }
})

test('the ids and scopes that go upstream for any accepted token can stand in a header', () => {
  const claim = fc.constantFrom('sub', 'sid', 'client_id', 'scope')
  const text = fc.string({ unit: fc.integer({ min: 0, max: 0x17f }).map((c) => String.fromCharCode(c)) })
  const count = { accepted: 0, refused: 0 }
  fc.assert(
    fc.property(claim, text, (name, value) => {
      const { principal } = read({ [name]: value })
      count[principal === undefined ? 'refused' : 'accepted']++
      if (principal === undefined) return
      const { subject, session, client, scope } = principal
      for (const id of [subject, session, client]) assert.match(id ?? 'none', /^[\x21-\x7e]+$/)
      assert.match(scope, /^[\x20-\x7e]*$/)
    }),
    { numRuns: 2_000 },
  )
  assert.ok(count.accepted > 0 && count.refused > 0, JSON.stringify(count))
})

test('tokens with the claims of Keycloak and of Auth0 (RFC 9068 profile) prove who they are for', () => {
  const keycloak = {
    exp: NOW_SECONDS + 300,
    iat: NOW_SECONDS,
    jti: 'onrtac:4fdbd8cf-6a8b-4b59-8f1c-1f9d0d6a3e5b',
    iss: 'https://id.example.com/realms/bank',
    aud: ['https://api.example.com', 'account'],
    sub: '8a6f0d4e-25c1-4d0c-9f33-0d1a2c0f7a51',
    typ: 'Bearer',
    azp: 'web-app',
    sid: 'c0a7f0a4-6f2c-4d0e-a7f5-90d50b6e8f10',
    acr: '1',
    'allowed-origins': ['https://app.example.com'],
    realm_access: { roles: ['offline_access'] },
    scope: 'email accounts:read profile',
  }
  /** Claims that Keycloak 26.7.3 gives a service account whose client has no scopes of its own. */
  const machine = {
    exp: NOW_SECONDS + 300,
    iat: NOW_SECONDS,
    jti: 'trrtcc:40dc284f-3520-5b05-64b3-5594a8f024c0',
    iss: 'https://id.example.com/realms/bank',
    aud: 'https://api.example.com',
    sub: '8f1e0d71-3239-4097-a021-08e34c508dfb',
    typ: 'Bearer',
    azp: 'müller & co',
    scope: '',
    clientHost: '127.0.0.1',
    clientAddress: '127.0.0.1',
    client_id: 'müller & co',
  }
  const auth0 = {
    iss: 'https://tenant.auth0.com/',
    sub: 'auth0|123456',
    aud: ['https://api.example.com', 'https://tenant.auth0.com/userinfo'],
    client_id: 'my_client_id',
    exp: NOW_SECONDS + 86_400,
    iat: NOW_SECONDS,
    jti: '73WakrfVbNJBaAmhQtEeDv',
    scope: 'openid profile accounts:read',
  }
  const theirs = { ...RULES, issuer: machine.iss, audiences: [machine.aud] }
  const { principal } = readClaims(machine, theirs, NOW_MS)
  assert.deepEqual([principal?.client, principal?.scope], ['m%C3%BCller%20&%20co', ''])
  for (const claims of [keycloak, auth0]) {
    const theirs = { ...RULES, issuer: claims.iss, audiences: ['https://api.example.com'] }
    const { principal, fault } = readClaims(claims, theirs, NOW_MS)
    assert.equal(fault, undefined)
    assert.equal(principal?.subject, claims.sub)
    assert.ok(principal?.scopes.has('accounts:read'))
  }
})

test('how and when the user was authenticated is told, with the tolerance of the issuer', () => {
  const told = (changes: Members, clockToleranceMs = 10_000) => {
    const { principal } = readClaims(goodClaims(changes), { ...RULES, clockToleranceMs }, NOW_MS)
    assert.ok(principal)
    return [principal.acr, principal.authenticatedAtMs]
  }
  assert.deepEqual(told({ acr: 'sca', auth_time: NOW_SECONDS - 60 }, 0), ['sca', NOW_MS - 60_000])
  assert.deepEqual(told({ auth_time: NOW_SECONDS - 60 }, 5000), [undefined, NOW_MS - 55_000])
  assert.deepEqual(told({ auth_time: NOW_SECONDS + 10 }), [undefined, NOW_MS + 20_000])
  // Milliseconds by mistake, or a time in the future, would be recent for ever.
  for (const auth_time of [NOW_MS, NOW_SECONDS + 11, '1', null, Number.POSITIVE_INFINITY])
    assert.deepEqual(told({ acr: 1, auth_time }), [undefined, undefined], String(auth_time))
})
