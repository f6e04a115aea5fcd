import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RFC9068 } from '../../config/issuers/token-dialects.ts'
import type { IntrospectionSettings } from '../../config/settings.ts'
import { KeySet } from '../keys/jwks.ts'
import type { Revocations } from '../revocations.ts'
import {
  AUDIENCE,
  es256Token,
  goodClaims,
  ISSUER,
  NOW_MS,
  NOW_SECONDS,
  signingKey,
} from '../tokens/issuer.test-support.ts'
import type { TrustedIssuer } from '../tokens/issuers.ts'
import { TokenVerifier } from '../tokens/verifier.ts'
import { Introspector } from './introspector.ts'

const CALLER = { address: '192.0.2.1', closed: false }
const OTHER = 'https://other.example'
const clock = () => NOW_MS

async function issuerWith(
  issuer: string,
  kind: IntrospectionSettings['for'] | undefined,
  asked: string[],
): Promise<TrustedIssuer> {
  const keys = new KeySet({
    uri: `${issuer}/jwks`,
    clock,
    onFault: () => undefined,
    fetch: async () => ({ keys: [signingKey('ES256').jwk] }),
  })
  await keys.refresh()
  const plain: TrustedIssuer = {
    issuer,
    audiences: [AUDIENCE],
    tokens: RFC9068,
    clockToleranceMs: 10_000,
    own: issuer === ISSUER,
    boundOnly: false,
    scopes: undefined,
    algorithms: new Set(['ES256']),
    keys,
  }
  if (kind === undefined) return plain
  const settings: IntrospectionSettings = {
    url: `${issuer}/introspect`,
    clientId: 'countersign',
    clientSecretFile: 'secret',
    for: kind,
    cacheMs: 30_000,
    negativeCacheMs: 5_000,
    timeoutMs: 2000,
    signed: false,
  }
  const answer = {
    active: true,
    token_type: 'Bearer',
    sub: 'alice',
    client_id: 'app',
    aud: AUDIENCE,
    exp: NOW_SECONDS + 600,
    jti: 'token-1',
  }
  const introspector = new Introspector(plain, {
    settings,
    clock,
    count: () => undefined,
    onFault: () => undefined,
    ask: async (token) => {
      asked.push(token)
      return {
        statusCode: 200,
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(answer)),
      }
    },
  })
  return { ...plain, introspection: settings, introspector }
}

const revoked = new Set<string>()
const revocations = {
  isRevoked: (session?: string) => session !== undefined && revoked.has(session),
} as unknown as Revocations

const verifierOf = (issuers: readonly TrustedIssuer[]) => new TokenVerifier({ issuers, revocations, clock })

test('a JWT of a known issuer is shown to no introspection endpoint, whatever is wrong with it', async () => {
  const asked: string[] = []
  const verifier = verifierOf([
    await issuerWith(ISSUER, undefined, asked),
    await issuerWith(OTHER, 'all', asked),
  ])
  const good = es256Token({ claims: goodClaims() })
  assert.notEqual((await verifier.verify(good, CALLER)).principal, undefined)
  const [header, payload] = good.split('.')
  for (const token of [
    `${header}.${payload}.AAAA`,
    `e30.${payload}.AAAA`,
    es256Token({ claims: goodClaims({ exp: 1 }) }),
  ]) {
    assert.notEqual((await verifier.verify(token, CALLER)).fault, undefined)
  }
  assert.deepEqual(asked, [])
})

test('a JWT of an issuer that is asked about all its tokens is never verified here', async () => {
  const asked: string[] = []
  const verifier = verifierOf([
    await issuerWith(ISSUER, undefined, asked),
    await issuerWith(OTHER, 'all', asked),
  ])
  const token = es256Token({ claims: goodClaims({ iss: OTHER }) })
  const stranger = await verifier.verify(token, CALLER, new Set([ISSUER]))
  assert.match(stranger.fault?.cause ?? '', /must be asked about it/)
  assert.deepEqual(asked, [])
  assert.equal((await verifier.verify(token, CALLER)).principal?.subject, `${OTHER}#alice`)
  assert.deepEqual(asked, [token])
})

test('a JWT of an issuer that is asked about opaque tokens only is verified here', async () => {
  const asked: string[] = []
  const verifier = verifierOf([await issuerWith(ISSUER, 'opaque', asked)])
  assert.notEqual((await verifier.verify(es256Token({ claims: goodClaims() }), CALLER)).principal, undefined)
  assert.deepEqual(asked, [])
  const unknown = es256Token({ claims: goodClaims({ iss: 'https://unknown.example' }) })
  assert.equal((await verifier.verify(unknown, CALLER)).issuer, ISSUER)
  assert.deepEqual(asked, [unknown])
})

test('an opaque token is shown to the issuer that the row trusts, and to none where it trusts none of them', async () => {
  const asked: string[] = []
  const verifier = verifierOf([
    await issuerWith(ISSUER, undefined, asked),
    await issuerWith(OTHER, 'opaque', asked),
  ])
  assert.equal((await verifier.verify('opaque', CALLER, new Set([ISSUER]))).fault?.reason, 'malformed')
  assert.deepEqual(asked, [])
  assert.equal((await verifier.verify('opaque', CALLER, new Set([OTHER]))).issuer, OTHER)
  assert.deepEqual([verifier.wasActive('opaque'), verifier.wasActive('other')], [true, false])
  assert.equal(verifier.wasActive('opaque', new Set([ISSUER])), false)
  assert.equal(verifier.verifyKnown('opaque', new Set([ISSUER])), undefined)
  assert.equal(verifier.verifyKnown('opaque')?.issuer, OTHER)
})

test('a token whose session ended is refused although its answer is cached; without a sid its jti is the session', async () => {
  const verifier = verifierOf([await issuerWith(OTHER, 'opaque', [])])
  assert.equal((await verifier.verify('opaque', CALLER)).principal?.session, `${OTHER}#token-1`)
  revoked.add(`${OTHER}#token-1`)
  assert.equal((await verifier.verify('opaque', CALLER)).fault?.reason, 'revoked')
  assert.equal(verifier.verifyKnown('opaque'), undefined)
})
