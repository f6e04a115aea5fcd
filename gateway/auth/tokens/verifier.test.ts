import assert from 'node:assert/strict'
import { createHmac, createPublicKey } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import type { JWK } from 'jose'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { KeySet } from '../keys/jwks.ts'
import type { Algorithm } from '../keys/signature.ts'
import { Revocations } from '../revocations.ts'
import { FairTurns } from './fair-turns.ts'
import {
  answerJson,
  encode,
  es256Token,
  freshKey,
  goodClaims,
  ISSUER,
  joseToken,
  NOW_MS,
  NOW_SECONDS,
  RULES,
  serve,
  signingKey,
} from './issuer.test-support.ts'
import type { TrustedIssuer } from './issuers.ts'
import type { Verification } from './verification.ts'
import { TokenVerifier } from './verifier.ts'

const published = (['ES256', 'PS256', 'RS256', 'EdDSA'] as const).map((alg) => signingKey(alg).jwk)

/** Never waits, however slow the machine. */
const UNHURRIED = new FairTurns(() => 0)
const CALLER = { address: '192.0.2.1', closed: false }

function trusted(keys: KeySet, changes: Partial<TrustedIssuer> = {}): TrustedIssuer {
  return {
    ...RULES,
    algorithms: new Set(['ES256', 'PS256', 'RS256', 'EdDSA']),
    keys,
    ...changes,
  }
}

interface Harness {
  readonly verifier: TokenVerifier
  readonly keys: KeySet
  readonly revocations: Revocations
  readonly time: { nowMs: number }
  /** What the issuer answers: the document, or the outage to throw, or a promise of either. */
  document: unknown
  fetches: number
}

async function harnessOf(t: TestContext, document: unknown = { keys: published }): Promise<Harness> {
  const dataDir = temporaryDirectory(t)
  const time = { nowMs: NOW_MS }
  const clock = () => time.nowMs
  const keys = new KeySet({
    uri: 'memory:',
    clock,
    onFault: () => undefined,
    fetch: async () => {
      harness.fetches++
      const answer = await harness.document
      if (answer instanceof Error) throw answer
      return answer
    },
  })
  const revocations = new Revocations({ dataDir, clock, onFault: assert.fail })
  const verifier = new TokenVerifier({ issuers: [trusted(keys)], revocations, clock, turns: UNHURRIED })
  const harness: Harness = { verifier, keys, revocations, time, document, fetches: 0 }
  await keys.refresh()
  time.nowMs += 10_000
  harness.fetches = 0
  return harness
}

function assertSync(verification: Verification | Promise<Verification>): Verification {
  assert.ok(!(verification instanceof Promise), 'verified without waiting')
  return verification
}

for (const alg of ['ES256', 'PS256', 'RS256', 'EdDSA'] as const) {
  test(`a token that jose signed with ${alg} is accepted without waiting, and from memory the next time`, async (t) => {
    const { verifier } = await harnessOf(t)
    const token = await joseToken(alg)
    const first = assertSync(verifier.verify(token, CALLER))
    assert.equal(first.principal?.subject, 'user-1')
    assert.equal(verifier.verify(token, CALLER), first)
  })
}

test('Ed25519 (RFC 9864) and EdDSA are one algorithm, whatever the token and its key call it', async (t) => {
  for (const published of ['EdDSA', 'Ed25519', undefined]) {
    const { verifier } = await harnessOf(t, {
      keys: [signingKey('EdDSA', { kid: 'ed', alg: published }).jwk],
    })
    for (const alg of ['EdDSA', 'Ed25519'] as const) {
      const token = await joseToken(alg, goodClaims(), 'ed')
      assert.ok(assertSync(verifier.verify(token, CALLER)).principal, `${alg} by a key of ${published}`)
    }
  }
})

test('an RSA key without alg verifies PS256 and RS256', async (t) => {
  const { verifier } = await harnessOf(t, { keys: [signingKey('RS256', { kid: 'rsa', alg: undefined }).jwk] })
  assert.ok(assertSync(verifier.verify(await joseToken('PS256', goodClaims(), 'rsa'), CALLER)).principal)
  assert.ok(assertSync(verifier.verify(await joseToken('RS256', goodClaims(), 'rsa'), CALLER)).principal)
})

test('a token is known once it was verified, while it is neither expired nor revoked and its key is in force', async (t) => {
  const harness = await harnessOf(t)
  const { verifier, revocations, time, keys } = harness
  const token = es256Token()
  assert.equal(verifier.verifyKnown(token), undefined, 'not seen before')
  assert.equal(verifier.verifyKnown(`${token}A`), undefined)
  const verified = assertSync(verifier.verify(token, CALLER))
  assert.equal(verifier.verifyKnown(token), verified)
  revocations.revoke('session-1')
  assert.equal(verifier.verifyKnown(token), undefined, 'revoked')
  const other = es256Token({ claims: goodClaims({ sid: 'session-2' }) })
  assert.ok(assertSync(verifier.verify(other, CALLER)).principal)
  time.nowMs += 610_000
  assert.equal(verifier.verifyKnown(other), undefined, 'expired')
  const third = es256Token({ claims: goodClaims({ sid: 'session-2', exp: NOW_SECONDS + 3600 }) })
  assert.ok(assertSync(verifier.verify(third, CALLER)).principal)
  assert.ok(verifier.verifyKnown(third))
  harness.document = { keys: [freshKey('ES256').jwk] }
  await keys.refresh()
  assert.equal(verifier.verifyKnown(third), undefined, 'its key is withdrawn')
})

test('a token without a kid is verified by the one key that fits, and by none where two fit', async (t) => {
  const harness = await harnessOf(t)
  const { verifier, keys, time } = harness
  const nameless = () => es256Token({ header: { kid: undefined } })
  const token = nameless()
  assert.equal(assertSync(verifier.verify(token, CALLER)).principal?.subject, 'user-1')
  harness.document = { keys: [...published, freshKey('next').jwk] }
  await keys.refresh()
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal, 'known by the key that verified it')
  const { fault } = assertSync(verifier.verify(nameless(), CALLER))
  assert.equal(
    fault?.cause,
    'the header names no key, and 2 keys of the issuer fit ES256: have it send a kid',
  )
  assert.equal(fault.reason, 'invalid')
  harness.document = { keys: [freshKey('next').jwk] }
  time.nowMs += 10_000
  await keys.refresh()
  const { fault: gone } = await verifier.verify(token, CALLER)
  assert.equal(gone?.cause, 'the signature does not fit', 'its key is withdrawn')
})

test('a token without a kid has the keys fetched again where none fits', async (t) => {
  const { kid: _kid, ...unnamed } = signingKey('ES256').jwk
  const harness = await harnessOf(t, { keys: [signingKey('RS256').jwk] })
  harness.document = { keys: [unnamed] }
  const found = await harness.verifier.verify(es256Token({ header: { kid: undefined } }), CALLER)
  assert.equal(found.principal?.subject, 'user-1')
  assert.equal(harness.fetches, 1)
  const other = await harness.verifier.verify(es256Token({ header: { kid: 'other' } }), CALLER)
  assert.match(other.fault?.cause ?? '', /^kid "other" is not known/)
  harness.document = { keys: [] }
  harness.time.nowMs += 10_000
  await harness.keys.refresh()
  const none = await harness.verifier.verify(es256Token({ header: { kid: undefined } }), CALLER)
  assert.equal(none.fault?.reason, 'keys_unavailable')
})

test('a token without a kid has the keys fetched again where the one that fits did not sign it', async (t) => {
  const harness = await harnessOf(t)
  const { verifier } = harness
  const successor = freshKey('next')
  harness.document = { keys: [successor.jwk] }
  const signedBy = (key = successor.privateKey) => es256Token({ header: { kid: undefined }, key })
  const both = await Promise.all([signedBy(), signedBy()].map((token) => verifier.verify(token, CALLER)))
  for (const { principal } of both) assert.equal(principal?.subject, 'user-1')
  assert.equal(harness.fetches, 1)
  const forged = await verifier.verify(signedBy(freshKey('forged').privateKey), CALLER)
  assert.equal(forged.fault?.cause, 'the signature does not fit')
  assert.equal(harness.fetches, 1, 'at most once in 10 s')
})

function hmacToken(secret: string | Buffer, kid: string): string {
  const text = `${encode(JSON.stringify({ alg: 'HS256', typ: 'at+jwt', kid }))}.${encode(JSON.stringify(goodClaims()))}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

test('an HMAC with any spelling of a public key as its secret is invalid', async (t) => {
  const { verifier } = await harnessOf(t)
  for (const jwk of published) {
    const key = createPublicKey({ format: 'jwk', key: jwk as JWK & { kty: string } })
    const secrets = [
      key.export({ type: 'spki', format: 'pem' }),
      key.export({ type: 'spki', format: 'der' }),
      JSON.stringify(jwk),
      Buffer.from(String(jwk.x ?? jwk.n), 'base64url'),
      '',
    ]
    for (const secret of secrets) {
      const { fault } = assertSync(verifier.verify(hmacToken(secret, String(jwk.kid)), CALLER))
      assert.equal(fault?.reason, 'invalid')
    }
  }
})

test('a token without a signature is never accepted', async (t) => {
  const { verifier } = await harnessOf(t)
  const [header, payload, signature] = es256Token({ header: { alg: 'none' } }).split('.')
  assert.equal(assertSync(verifier.verify(`${header}.${payload}.`, CALLER)).fault?.reason, 'malformed')
  assert.equal(
    assertSync(verifier.verify(`${header}.${payload}.${signature}`, CALLER)).fault?.reason,
    'invalid',
  )
  const [es256] = es256Token().split('.')
  assert.equal(assertSync(verifier.verify(`${es256}.${payload}.AA`, CALLER)).fault?.reason, 'invalid')
})

test('an algorithm other than the one the key is pinned to is invalid, even with a good signature', async (t) => {
  const { verifier } = await harnessOf(t)
  // PS256 and RS256 have the same RSA key here. Each of its two names is published for one algorithm only.
  for (const [alg, kid] of [
    ['PS256', 'RS256'],
    ['RS256', 'PS256'],
    ['ES256', 'RS256'],
    ['RS256', 'ES256'],
    ['EdDSA', 'ES256'],
    ['ES256', 'EdDSA'],
  ] as [Algorithm, Algorithm][]) {
    const { fault } = assertSync(verifier.verify(await joseToken(alg, goodClaims(), kid), CALLER))
    assert.equal(fault?.reason, 'invalid')
    assert.equal(fault.cause, `alg ${alg} is not what key "${kid}" is for`)
  }
})

test('a token that somebody else signed under a known kid is invalid', async (t) => {
  const { verifier } = await harnessOf(t)
  const { privateKey } = freshKey('ES256')
  const { fault } = assertSync(verifier.verify(es256Token({ key: privateKey }), CALLER))
  assert.equal(fault?.reason, 'invalid')
  assert.equal(fault.cause, 'the signature does not fit')
})

test('a token that brings its own key is invalid', async (t) => {
  const { verifier } = await harnessOf(t)
  const own = freshKey('own')
  for (const header of [
    { jwk: own.jwk },
    { jwk: own.jwk, kid: 'own' },
    { jku: 'http://127.0.0.1:1/', kid: 'own' },
  ]) {
    assert.equal(
      assertSync(verifier.verify(es256Token({ header, key: own.privateKey }), CALLER)).fault?.reason,
      'invalid',
    )
  }
})

test('no change of one character of a good token is accepted', async (t) => {
  const { verifier } = await harnessOf(t)
  const tokens = [es256Token(), await joseToken('PS256'), await joseToken('EdDSA')]
  const character = fc.constantFrom(...'ABCDEFabcdef0129-_.=')
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...tokens), fc.nat(), character, async (token, place, replacement) => {
      const at = place % token.length
      fc.pre(token[at] !== replacement)
      const { principal } = await verifier.verify(
        token.slice(0, at) + replacement + token.slice(at + 1),
        CALLER,
      )
      assert.equal(principal, undefined)
    }),
    { numRuns: 500 },
  )
})

test('a bound token without its proof is refused though everything else is good', async (t) => {
  const { verifier } = await harnessOf(t)
  const { fault } = assertSync(
    verifier.verify(es256Token({ claims: goodClaims({ cnf: { jkt: 'a' } }) }), CALLER),
  )
  assert.equal(fault?.reason, 'invalid')
  assert.match(fault.cause, /^cnf/)
})

test('a remembered token expires', async (t) => {
  const { verifier, time } = await harnessOf(t)
  const token = es256Token()
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  time.nowMs = NOW_MS + 609_999
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  time.nowMs = NOW_MS + 610_000
  assert.equal(assertSync(verifier.verify(token, CALLER)).fault?.reason, 'expired')
  assert.equal(assertSync(verifier.verify(token, CALLER)).fault?.reason, 'expired')
})

test('a remembered token is refused from the next use on when its session is revoked', async (t) => {
  const { verifier, revocations } = await harnessOf(t)
  const [token, other] = [es256Token(), es256Token({ claims: goodClaims({ sid: 'session-2' }) })]
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  revocations.revoke('session-1')
  const { fault } = assertSync(verifier.verify(token, CALLER))
  assert.equal(fault?.reason, 'revoked')
  assert.equal(fault.description, 'The access token was revoked')
  assert.ok(assertSync(verifier.verify(other, CALLER)).principal)
})

test('a token that was never seen is refused when its session is revoked', async (t) => {
  const { verifier, revocations } = await harnessOf(t)
  revocations.revoke('session-1')
  assert.equal(assertSync(verifier.verify(es256Token(), CALLER)).fault?.reason, 'revoked')
  assert.equal((await verifier.verify(await joseToken('EdDSA'), CALLER)).fault?.reason, 'revoked')
})

test('a remembered token is refused once its key is withdrawn', async (t) => {
  const harness = await harnessOf(t)
  const { verifier, keys } = harness
  const token = es256Token()
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  harness.document = { keys: published.filter(({ kid }) => kid !== 'ES256') }
  await keys.refresh()
  const { fault } = await verifier.verify(token, CALLER)
  assert.equal(fault?.reason, 'invalid')
  assert.match(fault.cause, /kid "ES256" is not known/)
})

test('a remembered token is refused once its kid is given to another key', async (t) => {
  const harness = await harnessOf(t)
  const { verifier, keys } = harness
  const token = es256Token()
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  const successor = freshKey('ES256')
  harness.document = { keys: [successor.jwk] }
  await keys.refresh()
  assert.equal(assertSync(verifier.verify(token, CALLER)).fault?.reason, 'invalid')
  assert.ok(assertSync(verifier.verify(es256Token({ key: successor.privateKey }), CALLER)).principal)
})

test('a remembered token stays accepted after a refresh that publishes the same key', async (t) => {
  const { verifier, keys } = await harnessOf(t)
  const token = es256Token()
  const first = assertSync(verifier.verify(token, CALLER))
  assert.equal(await keys.refresh(), 'refreshed')
  assert.equal(assertSync(verifier.verify(token, CALLER)), first)
})

test('a token of a new key is accepted after one fetch, and tokens of known keys do not wait for it', async (t) => {
  const harness = await harnessOf(t)
  const { verifier } = harness
  const next = freshKey('next')
  const answer = Promise.withResolvers<unknown>()
  harness.document = answer.promise
  const waiting = verifier.verify(es256Token({ header: { kid: 'next' }, key: next.privateKey }), CALLER)
  assert.ok(waiting instanceof Promise)
  assert.ok(assertSync(verifier.verify(es256Token(), CALLER)).principal)
  answer.resolve({ keys: [...published, next.jwk] })
  assert.equal((await waiting).principal?.subject, 'user-1')
  assert.equal(harness.fetches, 1)
})

test('many tokens of unknown keys cause one fetch in 10 s', async (t) => {
  const harness = await harnessOf(t)
  const storm = Array.from({ length: 200 }, (_, index) => es256Token({ header: { kid: `made-up-${index}` } }))
  const faults = await Promise.all(
    storm.map(async (token) => (await harness.verifier.verify(token, CALLER)).fault),
  )
  assert.ok(faults.every((fault) => fault?.reason === 'invalid'))
  assert.equal(harness.fetches, 1)
  harness.time.nowMs += 9_999
  await harness.verifier.verify(storm[0]!, CALLER)
  assert.equal(harness.fetches, 1)
  harness.time.nowMs += 1
  await harness.verifier.verify(storm[0]!, CALLER)
  assert.equal(harness.fetches, 2)
})

test('a token that could never be good causes no fetch', async (t) => {
  const { verifier, ...harness } = await harnessOf(t)
  const header = { kid: 'made-up' }
  for (const changes of [{ iss: 'x' }, { aud: 'x' }, { exp: NOW_SECONDS - 10 }, { cnf: {} }]) {
    assert.ok(assertSync(verifier.verify(es256Token({ header, claims: goodClaims(changes) }), CALLER)).fault)
  }
  assert.equal(harness.fetches, 0)
})

test('a refused token is not remembered: it is accepted once its key is published', async (t) => {
  const harness = await harnessOf(t)
  const next = freshKey('next')
  const token = es256Token({ header: { kid: 'next' }, key: next.privateKey })
  assert.equal((await harness.verifier.verify(token, CALLER)).fault?.reason, 'invalid')
  harness.document = { keys: [next.jwk] }
  harness.time.nowMs += 10_000
  assert.ok((await harness.verifier.verify(token, CALLER)).principal)
})

test('the same new token brought many times at once is verified once', async (t) => {
  const { verifier } = await harnessOf(t)
  const token = await joseToken('EdDSA')
  const first = verifier.verify(token, CALLER)
  assert.equal(verifier.verify(token, CALLER), first)
  assert.ok((await first).principal)
  const made = es256Token({ header: { kid: 'made-up' } })
  const waiting = verifier.verify(made, CALLER)
  assert.equal(verifier.verify(made, CALLER), waiting)
  await waiting
  assert.notEqual(verifier.verify(made, CALLER), waiting)
})

test('an EdDSA token of a new key is accepted', async (t) => {
  const harness = await harnessOf(t, { keys: [signingKey('ES256').jwk] })
  harness.document = { keys: published }
  assert.ok((await harness.verifier.verify(await joseToken('EdDSA'), CALLER)).principal)
})

test('before any key was loaded, tokens are refused as unverifiable, not as invalid', async (t) => {
  const harness = await harnessOf(t, new Error('down'))
  const { fault } = await harness.verifier.verify(es256Token(), CALLER)
  assert.equal(fault?.reason, 'keys_unavailable')
  assert.equal(
    fault.cause,
    'kid "ES256" is not known; keys cannot be read, so requests that need them get 503: down',
  )
  const cooling = await harness.verifier.verify(es256Token(), CALLER)
  assert.equal(cooling.fault?.reason, 'keys_unavailable')
  harness.document = { keys: published }
  harness.time.nowMs += 10_000
  assert.ok((await harness.verifier.verify(es256Token(), CALLER)).principal)
})

test('in an outage known keys go on and an unknown one is invalid', async (t) => {
  const harness = await harnessOf(t)
  harness.document = new Error('down')
  assert.equal(
    (await harness.verifier.verify(es256Token({ header: { kid: 'next' } }), CALLER)).fault?.reason,
    'invalid',
  )
  assert.ok(assertSync(harness.verifier.verify(es256Token(), CALLER)).principal)
})

test('a token that expires, or is revoked, while its key is fetched is refused', async (t) => {
  for (const [reason, happen] of [
    ['expired', ({ time }: Harness) => (time.nowMs = NOW_MS + 610_000)],
    ['revoked', ({ revocations }: Harness) => revocations.revoke('session-1')],
  ] as const) {
    const harness = await harnessOf(t)
    const next = freshKey('next')
    const answer = Promise.withResolvers<unknown>()
    harness.document = answer.promise
    const waiting = harness.verifier.verify(
      es256Token({ header: { kid: 'next' }, key: next.privateKey }),
      CALLER,
    )
    happen(harness)
    answer.resolve({ keys: [next.jwk] })
    assert.equal((await waiting).fault?.reason, reason)
  }
})

test('no more tokens are remembered than the cache size', async (t) => {
  const { keys, revocations } = await harnessOf(t)
  const clock = () => NOW_MS
  const verifier = new TokenVerifier({
    issuers: [trusted(keys)],
    revocations,
    clock,
    turns: UNHURRIED,
    cacheSize: 2,
  })
  const [first, second, third] = [es256Token(), es256Token(), es256Token()]
  const verdicts = [first, second].map((token) => verifier.verify(token, CALLER))
  assert.equal(verifier.verify(second, CALLER), verdicts[1])
  verifier.verify(third, CALLER)
  assert.equal(verifier.verify(second, CALLER), verdicts[1])
  assert.notEqual(verifier.verify(first, CALLER), verdicts[0])
})

test('no more than 16 Mi characters of tokens are remembered', async (t) => {
  const { verifier } = await harnessOf(t)
  const big = () => es256Token({ claims: goodClaims({ pad: 'x'.repeat(5_600) }) })
  const [first, second] = [big(), big()]
  const [verdict, secondVerdict] = [verifier.verify(first, CALLER), verifier.verify(second, CALLER)]
  const fitting = Math.floor((16 * 1024 * 1024) / first.length)
  for (let count = 2; count < fitting; count++) verifier.verify(big(), CALLER)
  assert.equal(verifier.verify(first, CALLER), verdict)
  verifier.verify(big(), CALLER)
  assert.equal(verifier.verify(first, CALLER), verdict)
  assert.notEqual(verifier.verify(second, CALLER), secondVerdict)
})

test('with a real issuer, tokens are verified through start, rotation with overlap, and outage', async (t) => {
  const { revocations, time } = await harnessOf(t)
  const [old, next] = [freshKey('old'), freshKey('next')]
  const tokenOf = (kid: string, key: typeof old) => es256Token({ header: { kid }, key: key.privateKey })
  const source = await serve(t, answerJson({ keys: [old.jwk] }))
  const clock = () => time.nowMs
  const keys = new KeySet({ uri: source.uri, clock, onFault: () => undefined })
  t.after(() => keys.stop())
  const verifier = new TokenVerifier({ issuers: [trusted(keys)], revocations, clock, turns: UNHURRIED })
  keys.start()
  const oldToken = tokenOf('old', old)
  assert.ok((await verifier.verify(oldToken, CALLER)).principal)
  assert.equal(source.requests(), 1)
  source.answer = answerJson({ keys: [old.jwk, next.jwk] })
  assert.ok((await verifier.verify(tokenOf('next', next), CALLER)).principal)
  assert.ok(assertSync(verifier.verify(oldToken, CALLER)).principal)
  source.answer = (_request, response) => response.writeHead(503).end()
  time.nowMs += 10_000
  assert.equal(await keys.refresh(), 'failed')
  assert.ok(assertSync(verifier.verify(oldToken, CALLER)).principal)
  source.answer = answerJson({ keys: [next.jwk] })
  time.nowMs += 10_000
  assert.equal(await keys.refresh(), 'refreshed')
  assert.equal((await verifier.verify(oldToken, CALLER)).fault?.reason, 'invalid')
  assert.ok(assertSync(verifier.verify(tokenOf('next', next), CALLER)).principal)
})

const OTHER = 'https://other.example'

/** Two issuers that publish keys of the same name. */
async function twoIssuersOf(t: TestContext, changes: Partial<TrustedIssuer> = {}) {
  const { keys, revocations } = await harnessOf(t)
  const otherKey = freshKey('ES256')
  const clock = () => NOW_MS
  const fetch = async () => ({ keys: [otherKey.jwk] })
  const otherKeys = new KeySet({ uri: 'memory:other', clock, onFault: assert.fail, fetch })
  await otherKeys.refresh()
  const other = trusted(otherKeys, { issuer: OTHER, own: false, ...changes })
  const verifier = new TokenVerifier({
    issuers: [trusted(keys), other],
    revocations,
    clock,
    turns: UNHURRIED,
  })
  const tokenOf = (iss: string, key: typeof otherKey) =>
    es256Token({ claims: goodClaims({ iss }), key: key.privateKey })
  return { verifier, tokenOf, otherKey, otherKeys }
}

test('each issuer is verified by its own keys, though both name them alike', async (t) => {
  const { verifier, tokenOf, otherKey } = await twoIssuersOf(t)
  for (const round of ['first', 'remembered']) {
    const ours = assertSync(verifier.verify(tokenOf(ISSUER, signingKey('ES256')), CALLER))
    const theirs = assertSync(verifier.verify(tokenOf(OTHER, otherKey), CALLER))
    assert.deepEqual(
      [round, ours.principal?.subject, theirs.principal?.subject],
      [round, 'user-1', `${OTHER}#user-1`],
    )
  }
})

test('the key of one issuer never verifies the token of another', async (t) => {
  const { verifier, tokenOf, otherKey } = await twoIssuersOf(t)
  for (const token of [tokenOf(ISSUER, otherKey), tokenOf(OTHER, signingKey('ES256'))]) {
    assert.equal(assertSync(verifier.verify(token, CALLER)).fault?.cause, 'the signature does not fit')
  }
})

test("a remembered token of one issuer is refused once that issuer's key is withdrawn, whatever the other publishes", async (t) => {
  const { verifier, tokenOf, otherKey, otherKeys } = await twoIssuersOf(t)
  const token = tokenOf(OTHER, otherKey)
  assert.ok(assertSync(verifier.verify(token, CALLER)).principal)
  t.mock.method(otherKeys, 'find', () => undefined)
  t.mock.getter(otherKeys, 'all', () => [])
  assert.equal((await verifier.verify(token, CALLER)).fault?.reason, 'invalid')
})

test('a token of an issuer that is not trusted, even one of a similar name, is invalid and costs no fetch', async (t) => {
  const { verifier, tokenOf, otherKey, otherKeys } = await twoIssuersOf(t)
  const asked = t.mock.method(otherKeys, 'refresh')
  for (const iss of [`${OTHER}/`, OTHER.toUpperCase(), 'https://nobody.example', '']) {
    assert.match(
      assertSync(verifier.verify(tokenOf(iss, otherKey), CALLER)).fault?.cause ?? '',
      /^iss .* not trusted/,
    )
  }
  for (const iss of [undefined, null, [OTHER], { toString: OTHER }]) {
    const token = es256Token({ claims: goodClaims({ iss }), key: otherKey.privateKey })
    assert.match(assertSync(verifier.verify(token, CALLER)).fault?.cause ?? '', /^iss .* not trusted/)
  }
  assert.equal(asked.mock.callCount(), 0)
})

test('each issuer has its own audience', async (t) => {
  const { verifier, tokenOf, otherKey } = await twoIssuersOf(t, { audiences: ['us'] })
  assert.match(assertSync(verifier.verify(tokenOf(OTHER, otherKey), CALLER)).fault?.cause ?? '', /^aud/)
  const claims = goodClaims({ iss: OTHER, aud: 'us' })
  assert.ok(assertSync(verifier.verify(es256Token({ claims, key: otherKey.privateKey }), CALLER)).principal)
})

test('FAPI 2.0 section 5.4.1: an algorithm that the issuer is not trusted with is invalid, though its key could verify it', async (t) => {
  const { keys, revocations } = await harnessOf(t)
  const algorithms = new Set(['ES256', 'PS256', 'EdDSA'] as const)
  const clock = () => NOW_MS
  const verifier = new TokenVerifier({
    issuers: [trusted(keys, { algorithms })],
    revocations,
    clock,
    turns: UNHURRIED,
  })
  assert.match(
    assertSync(verifier.verify(await joseToken('RS256'), CALLER)).fault?.cause ?? '',
    /^alg RS256 is not accepted from this issuer/,
  )
  for (const alg of algorithms) assert.ok((await verifier.verify(await joseToken(alg), CALLER)).principal)
})

test('what a token is bound to is told at every use, from memory too', async (t) => {
  const { verifier } = await harnessOf(t)
  const jkt = '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I'
  const token = es256Token({ claims: goodClaims({ cnf: { jkt } }) })
  for (let use = 0; use < 2; use++) {
    assert.deepEqual(assertSync(verifier.verify(token, CALLER)).binding, { jkt, thumbprint: undefined })
  }
})

test('a verifier that replaces another keeps its cached tokens of issuers that both trust', async (t) => {
  const { verifier, keys, revocations, time } = await harnessOf(t)
  const token = await joseToken('ES256')
  const first = assertSync(verifier.verify(token, CALLER))
  const options = { revocations, clock: () => time.nowMs, turns: UNHURRIED }
  const [issuer] = verifier.issuers
  assert.ok(issuer)
  const same = new TokenVerifier({ ...options, issuers: [issuer] }, verifier)
  assert.equal(same.verify(token, CALLER), first)
  const narrower = trusted(keys, { audiences: ['another'] })
  assert.ok(
    assertSync(new TokenVerifier({ ...options, issuers: [narrower] }, verifier).verify(token, CALLER)).fault,
  )
  const none = new TokenVerifier({ ...options, issuers: [] }, verifier)
  // A request that began earlier may still add a token to the replaced verifier.
  assertSync(verifier.verify(await joseToken('PS256'), CALLER))
  assert.ok(assertSync(none.verify(token, CALLER)).fault)
  assert.ok(assertSync(none.verify(await joseToken('PS256'), CALLER)).fault)
})

test('new tokens beyond the time of a turn wait, known ones never do', async (t) => {
  const { keys, revocations } = await harnessOf(t)
  let spentMs = 0
  const turns = new FairTurns(() => (spentMs += 2))
  const verifier = new TokenVerifier({ issuers: [trusted(keys)], revocations, clock: () => NOW_MS, turns })
  const [known, later] = [es256Token(), es256Token()]
  const first = assertSync(verifier.verify(known, CALLER))
  const waiting = [verifier.verify(later, CALLER), verifier.verify(later, CALLER)]
  assert.ok(waiting.every((one) => one instanceof Promise))
  assert.equal(verifier.verify(known, CALLER), first)
  const [one, same] = await Promise.all(waiting)
  assert.ok(one?.principal)
  assert.equal(same, one, 'verified once')
})
