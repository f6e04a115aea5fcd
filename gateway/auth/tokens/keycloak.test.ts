import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, describe, it } from 'node:test'
import { tokenDialect } from '../../config/issuers/token-dialects.ts'
import type { WrittenTokens } from '../../config/keys/token-keys.ts'
import { KeySet } from '../keys/jwks.ts'
import type { Revocations } from '../revocations.ts'
import { FairTurns } from './fair-turns.ts'
import { RULES } from './issuer.test-support.ts'
import type { Verification } from './verification.ts'
import { TokenVerifier } from './verifier.ts'

/** What a real Keycloak wrote; `about` in it says how it was recorded. */
interface Recording {
  readonly recordedAtSeconds: number
  readonly issuer: string
  readonly jwks: object
  readonly userAccessToken: string
  readonly userIdToken: string
  readonly userRefreshToken: string
  readonly serviceAccessToken: string
  readonly serviceAccessTokenTyped: string
}

const recording: Recording = JSON.parse(
  readFileSync(new URL('keycloak-recording.json', import.meta.url), 'utf8'),
)
const NOW_MS = recording.recordedAtSeconds * 1000 + 1000
const faults: string[] = []
const keys = new KeySet({
  uri: 'memory:',
  clock: () => NOW_MS,
  onFault: (cause) => faults.push(cause),
  fetch: async () => recording.jwks,
})

function verify(token: string, { tokens = 'keycloak' as WrittenTokens, atMs = NOW_MS } = {}): Verification {
  const issuer = {
    ...RULES,
    issuer: recording.issuer,
    audiences: ['account'],
    tokens: tokenDialect(tokens),
    algorithms: new Set(['RS256', 'ES256', 'PS256', 'EdDSA'] as const),
    keys,
  }
  const revocations = { isRevoked: () => false } as unknown as Revocations
  const turns = new FairTurns(() => 0)
  const verifier = new TokenVerifier({ issuers: [issuer], revocations, clock: () => atMs, turns })
  const verification = verifier.verify(token, { address: '192.0.2.1', closed: false })
  assert.ok(!(verification instanceof Promise))
  return verification
}

function namesOf({ principal, fault }: Verification): unknown {
  return principal === undefined ? fault.cause : [principal.subject, principal.client, principal.scope]
}

describe('tokens that Keycloak 26.7.3 wrote, with the preset keycloak', () => {
  before(() => keys.refresh())

  it('the access token of a user is accepted', () => {
    assert.deepEqual(namesOf(verify(recording.userAccessToken)), [
      '234d6a99-6bd9-4350-9ec2-c8c03b76839d',
      'app-1',
      'openid profile email',
    ])
  })

  it('the access token of a service account is accepted, and the account counts as a user', () => {
    const own = ['3cc020b6-87a7-4012-b1ef-4e8d6eb507a1', 'machine-1', 'profile email']
    assert.deepEqual(namesOf(verify(recording.serviceAccessToken)), own)
    assert.deepEqual(namesOf(verify(recording.serviceAccessTokenTyped)), [
      '75a5937a-dee1-4f00-bcde-0c1a73d86619',
      'machine-2b',
      'profile email',
    ])
  })

  it('a service account is a machine, and a user stays a user, when client_id comes first in subjectClaims', () => {
    const tokens = { preset: 'keycloak', subjectClaims: ['client_id', 'sub'] } as const
    const machine = [undefined, 'machine-1', 'profile email']
    assert.deepEqual(namesOf(verify(recording.serviceAccessToken, { tokens })), machine)
    const user = ['234d6a99-6bd9-4350-9ec2-c8c03b76839d', 'app-1', 'openid profile email']
    assert.deepEqual(namesOf(verify(recording.userAccessToken, { tokens })), user)
  })

  it('the ID token and the refresh token are refused', () => {
    assert.match(String(namesOf(verify(recording.userIdToken))), /typ "ID" is not "Bearer"/)
    assert.match(String(namesOf(verify(recording.userRefreshToken))), /alg|HS512/)
  })

  it('no token is accepted by the preset rfc9068, or after its end', () => {
    assert.match(
      String(namesOf(verify(recording.userAccessToken, { tokens: 'rfc9068' }))),
      /typ "jwt" is no access token/,
    )
    const atMs = NOW_MS + 311_000
    assert.match(
      String(namesOf(verify(recording.userAccessToken, { atMs }))),
      /exp was 12 s ago; 10 s are allowed/,
    )
  })

  it('the key for encryption beside the key for signatures is passed over', () => {
    assert.deepEqual(faults, [
      'key "jV9i83J0I8yaN8DxRRIUDoN9eMLOqOzs_Vd3hXOpIqU" is left out: it is not for signatures: its use is "enc"',
    ])
  })
})
