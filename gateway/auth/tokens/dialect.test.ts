import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RFC9068, tokenDialect } from '../../config/issuers/token-dialects.ts'
import type { WrittenTokens } from '../../config/keys/token-keys.ts'
import { KeySet } from '../keys/jwks.ts'
import type { Revocations } from '../revocations.ts'
import { FairTurns } from './fair-turns.ts'
import {
  encode,
  es256Token,
  goodClaims,
  ISSUER,
  type Members,
  NOW_MS,
  NOW_SECONDS,
  RULES,
  signingKey,
} from './issuer.test-support.ts'
import type { TrustedIssuer } from './issuers.ts'
import { ACCESS_TOKENS, ID_TOKENS, type ProviderToken } from './provider-tokens.test-support.ts'
import type { Verification } from './verification.ts'
import { TokenVerifier } from './verifier.ts'

const NONE_REVOKED = { isRevoked: () => false } as unknown as Revocations
const keys = new KeySet({
  uri: 'memory:',
  clock: () => NOW_MS,
  onFault: assert.fail,
  fetch: async () => ({ keys: [signingKey('ES256').jwk] }),
})
await keys.refresh()

function verify(token: string, tokens: WrittenTokens, changes: Partial<TrustedIssuer> = {}): Verification {
  const issuer: TrustedIssuer = {
    ...RULES,
    tokens: tokenDialect(tokens),
    algorithms: new Set(['ES256'] as const),
    keys,
    ...changes,
  }
  const options = { revocations: NONE_REVOKED, clock: () => NOW_MS, turns: new FairTurns(() => 0) }
  const verification = new TokenVerifier({ ...options, issuers: [issuer] }).verify(token, {
    address: '192.0.2.1',
    closed: false,
  })
  assert.ok(!(verification instanceof Promise))
  return verification
}

function signed({ typ, claims }: Pick<ProviderToken, 'typ' | 'claims'>, changes: Members = {}): string {
  return es256Token({ header: { typ: typ ?? undefined }, claims: { ...claims, ...changes } })
}

function verifyOf(
  token: ProviderToken,
  { changes = {}, tokens = token.preset as WrittenTokens } = {},
): Verification {
  return verify(signed(token, changes), tokens, { issuer: String(token.claims.iss) })
}

function causeOf(verification: Verification): string {
  return verification.fault?.cause ?? 'accepted'
}

/** A token of an issuer that says nothing in `typ`. */
function plain(changes: Members = {}, typ: string | null = 'JWT'): string {
  return signed({ typ, claims: goodClaims({ client_id: 'app', ...changes }) })
}

describe('an access token as a provider writes it', () => {
  for (const token of ACCESS_TOKENS) {
    it(`of ${token.what} is accepted with its preset, and says who calls`, () => {
      const verification = verifyOf(token)
      assert.equal(causeOf(verification), 'accepted')
      const { subject, client, scope } = verification.principal ?? assert.fail()
      assert.deepEqual([subject, client, scope], [token.subject, token.client, token.scope])
    })

    if (token.typ !== 'at+jwt')
      it(`of ${token.what} is refused without its preset`, () => {
        assert.match(causeOf(verifyOf(token, { tokens: 'rfc9068' })), /typ.* is no access token$/)
      })

    it(`of ${token.what} is refused when it is for another audience`, () => {
      const changes = { aud: 'https://other.example', client_id: token.claims.client_id && 'other' }
      assert.match(causeOf(verifyOf(token, { changes })), /does not name https:\/\/api\.example$/)
    })

    it(`of ${token.what} is refused when its signature is of another key or of none`, () => {
      const { preset, claims, typ } = token
      const [header, payload] = signed(token).split('.')
      const none = encode(JSON.stringify({ alg: 'none', ...(typ !== null && { typ }) }))
      const other = signed({ typ, claims: { ...claims, sub: 'eve' } }).split('.')[2]
      const of = (text: string) => causeOf(verify(text, preset, { issuer: String(claims.iss) }))
      assert.match(of(`${none}.${payload}.`), /signature is not base64url/)
      assert.match(of(`${none}.${payload}.AAAA`), /^alg "none"/)
      assert.equal(of(`${header}.${payload}.${other}`), 'the signature does not fit')
    })
  }

  it('has a type that may be spelt as a media type and in any case', () => {
    const [entra] = ACCESS_TOKENS
    for (const typ of ['jwt', 'Jwt', 'application/JWT', 'APPLICATION/jwt'])
      assert.equal(causeOf(verifyOf({ ...(entra as ProviderToken), typ })), 'accepted', typ)
  })

  it('of Keycloak may be bound by DPoP, which is another type of token there', () => {
    const token = ACCESS_TOKENS.find(({ preset }) => preset === 'keycloak') as ProviderToken
    const jkt = '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I'
    const verification = verifyOf(token, { changes: { typ: 'DPoP', cnf: { jkt } } })
    assert.equal(verification.binding?.jkt, jkt)
  })
})

/** Claims that the provider puts into both tokens. */
const COMMON: Readonly<Record<ProviderToken['preset'], Members>> = {
  entra: { ver: ['1.0', '2.0'] },
  okta: { ver: 1 },
  auth0: {},
  cognito: { sub: 'aaaa-bbbb' },
  keycloak: { acr: '1' },
  ping: { env: 'ENV', org: 'ORG' },
}

describe('a token that is no access token', () => {
  for (const token of ID_TOKENS) {
    it(`is refused: the ID token of ${token.what}`, () => {
      assert.match(
        causeOf(verifyOf(token)),
        /^(?:it may be an ID token: it has .*|token_use "id" is not "access"|typ "(?:ID|Refresh)" is not "Bearer" or "DPoP")$/,
      )
      assert.notEqual(causeOf(verifyOf(token, { tokens: 'rfc9068' })), 'accepted')
    })

    it(`is refused also where the operator requires what both tokens have: ${token.what}`, () => {
      const types = ['JWT', '']
      const require = { iss: String(token.claims.iss), ...COMMON[token.preset] }
      const cause = /^(?:it may be an ID token: it has |token_use |typ )/
      assert.match(causeOf(verifyOf(token, { tokens: { preset: token.preset, require } })), cause)
      assert.match(causeOf(verifyOf(token, { tokens: { preset: token.preset, types, require } })), cause)
    })
  }

  it('is refused by its type: proofs, logout tokens and security events', () => {
    for (const typ of ['dpop+jwt', 'logout+jwt', 'secevent+jwt', 'id_token', 'at+jwt+x'])
      for (const preset of ['rfc9068', 'entra', 'okta', 'auth0', 'cognito', 'keycloak', 'ping'] as const)
        assert.equal(causeOf(verify(plain({}, typ), preset)), `typ "${typ}" is no access token`)
    assert.equal(causeOf(verify(plain({}, null), 'rfc9068')), 'a token without typ is no access token')
  })

  it('is recognised by nonce, at_hash and c_hash, unless a required claim says that it is an access token', () => {
    for (const claim of ['nonce', 'at_hash', 'c_hash']) {
      const token = plain({ [claim]: 'x', use: 'access', kind: 'app' })
      assert.equal(causeOf(verify(token, { types: ['JWT'] })), `it may be an ID token: it has ${claim}`)
      assert.equal(causeOf(verify(token, { types: ['JWT'], require: { use: 'access' } })), 'accepted')
      for (const require of [{ kind: 'app' }, { iss: ISSUER }, { use: ['access', 'id'] }])
        assert.equal(
          causeOf(verify(token, { types: ['JWT'], require })),
          `it may be an ID token: it has ${claim}`,
        )
      assert.equal(causeOf(verify(plain({ [claim]: 'x' }, 'at+jwt'), 'rfc9068')), 'accepted')
    }
  })

  it('is one without scopes, unless a claim that `require` or `machine` names says otherwise', () => {
    const bare = plain({ scope: undefined, kind: 'app' })
    for (const said of ['access', 'access_token', 'Access Token', 'Bearer', 'DPoP'])
      assert.equal(
        causeOf(
          verify(plain({ scope: undefined, kind: said }), { types: ['JWT'], require: { kind: [said] } }),
        ),
        'accepted',
      )
    assert.match(causeOf(verify(bare, { types: ['JWT'] })), /it has no scope$/)
    assert.match(
      causeOf(verify(bare, { types: ['JWT'], machine: { kind: 'service' } })),
      /no scope and no kind$/,
    )
    assert.equal(causeOf(verify(bare, { types: ['JWT'], machine: { kind: ['x', 'app'] } })), 'accepted')
    assert.match(causeOf(verify(bare, { types: ['JWT'], require: { kind: 'app' } })), /it has no scope$/)
  })
})

describe('a dialect of the operator', () => {
  it('requires claims of exactly a value, never of another type', () => {
    const tokens = { require: { n: 1, b: true, s: ['a', 'b'] } } as const
    const of = (changes: Members) =>
      causeOf(verify(plain({ n: 1, b: true, s: 'a', ...changes }, 'at+jwt'), tokens))
    assert.equal(of({}), 'accepted')
    assert.equal(of({ s: 'b' }), 'accepted')
    for (const n of ['1', 2, true, [1], null, undefined]) assert.match(of({ n }), /^n .* is not 1$/)
    for (const b of ['true', 1, false]) assert.match(of({ b }), /^b .* is not true$/)
    for (const s of [['a'], 'A', 'a b', {}, '']) assert.match(of({ s }), /^s .* is not "a" or "b"$/)
  })

  it('takes one of several audiences', () => {
    const of = (aud: unknown) =>
      causeOf(verify(plain({ aud }, 'at+jwt'), 'rfc9068', { audiences: ['one', 'two'] }))
    for (const aud of ['one', 'two', ['x', 'two']]) assert.equal(of(aud), 'accepted')
    for (const aud of ['three', [], undefined, 'one two']) assert.notEqual(of(aud), 'accepted')
    assert.match(of('three'), /^aud "three" does not name one or two$/)
  })

  it('takes no token whose aud names somebody else, whatever claim names the audience', () => {
    const tokens = { audienceClaim: 'client_id' } as const
    const of = (aud: unknown) =>
      causeOf(verify(plain({ aud }, 'at+jwt'), tokens, { audiences: ['app', 'https://api.example'] }))
    for (const aud of [undefined, null, [], 'app', 'https://api.example', ['x', 'https://api.example']])
      assert.equal(of(aud), 'accepted')
    assert.equal(of('account'), 'aud "account" does not name app or https://api.example')
    for (const aud of [['x', 'y'], '']) assert.match(of(aud), /^aud .* does not name app or https/)
    for (const aud of [7, {}, ['app', 7]]) assert.equal(of(aud), 'aud is neither a string nor a list of them')
  })

  it('refuses a machine that names no client', () => {
    const tokens = { machine: { kind: 'app' } } as const
    const of = (client_id?: string) => verify(plain({ kind: 'app', client_id }, 'at+jwt'), tokens)
    assert.equal(causeOf(of()), 'it is the token of a machine, but has no client_id')
    const { principal } = of('app-1')
    assert.deepEqual(
      [principal?.subject, principal?.client, principal?.key],
      [undefined, 'app-1', 'client:app-1'],
    )
  })

  it('counts each scope once, and refuses a claim of scopes that is none', () => {
    const tokens = { scopeClaims: ['scope', 'roles'] } as const
    const of = (roles: unknown) => verify(plain({ scope: 'a b', roles }, 'at+jwt'), tokens)
    assert.equal(of(['b', 'c']).principal?.scope, 'a b c')
    assert.match(causeOf(of({ a: true })), /^roles .* is no list of scopes$/)
  })

  it('bounds the life and the length of its tokens', () => {
    const of = (seconds: number, tokens: WrittenTokens) =>
      verify(plain({ iat: NOW_SECONDS, exp: NOW_SECONDS + seconds }, 'at+jwt'), tokens).fault?.description
    assert.equal(of(30 * 86_400, { maxLifetime: '30d' }), undefined)
    assert.equal(of(100_800, { maxLifetime: '27h' }), 'The access token lives for more than 27 hours')
    assert.equal(of(100, { maxLifetime: '90s' }), 'The access token lives for more than 90 seconds')
    const token = plain({}, 'at+jwt')
    assert.equal(causeOf(verify(token, { maxChars: token.length })), 'accepted')
    assert.equal(
      causeOf(verify(token, { maxChars: token.length - 1 })),
      `longer than ${token.length - 1} characters`,
    )
    const long = plain({ pad: 'x'.repeat(8192) }, 'at+jwt')
    assert.equal(causeOf(verify(long, 'rfc9068')), 'longer than 8192 characters')
    assert.equal(causeOf(verify(long, { maxChars: 32_768 })), 'accepted')
  })

  it('lets clocks be apart where the operator says so, for exp, nbf and iat', () => {
    const of = (changes: Members, clockToleranceMs = 10_000) =>
      causeOf(verify(plain(changes, 'at+jwt'), 'rfc9068', { clockToleranceMs }))
    const over = { exp: NOW_SECONDS - 29 }
    assert.equal(of(over), 'exp was 29 s ago; 10 s are allowed')
    assert.equal(of({ exp: NOW_SECONDS - 9 }), 'accepted')
    assert.equal(of({ exp: NOW_SECONDS - 10 }), 'exp was 10 s ago; 10 s are allowed')
    assert.equal(of(over, 30_000), 'accepted')
    assert.equal(of({ exp: NOW_SECONDS - 30 }, 30_000), 'exp was 30 s ago; 30 s are allowed')
    for (const claim of ['iat', 'nbf']) {
      assert.equal(of({ [claim]: NOW_SECONDS + 30 }, 30_000), 'accepted')
      assert.match(of({ [claim]: NOW_SECONDS + 31 }, 30_000), /is 31 s ahead of our clock; 30 s are allowed$/)
      assert.match(of({ [claim]: NOW_SECONDS + 11 }), /10 s are allowed$/)
    }
  })

  it('takes times that are whole numbers in another notation', () => {
    const text = JSON.stringify(goodClaims()).replace(/"iat":\d+,"exp":\d+/, '"iat":1.8e9,"exp":1800000600.0')
    assert.match(text, /1\.8e9/)
    const token = es256Token({ respell: (part, encoded) => (part === 'payload' ? encode(text) : encoded) })
    assert.equal(causeOf(verify(token, 'rfc9068')), 'accepted')
  })

  it('changes nothing for what it does not name', () => {
    assert.deepEqual(tokenDialect({}), RFC9068)
    assert.deepEqual(tokenDialect(undefined), RFC9068)
    const { types, ...rest } = tokenDialect({ preset: 'okta', types: ['application/AT+JWT', ''] })
    const { types: _, ...okta } = tokenDialect('okta')
    assert.deepEqual([types, rest], [['at+jwt', ''], okta])
  })
})
