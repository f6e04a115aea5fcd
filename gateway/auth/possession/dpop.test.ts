import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { sha256 } from '../keys/thumbprint.ts'
import {
  encode,
  type Members,
  NOW_SECONDS,
  publicJwk,
  signingKey,
  signText,
} from '../tokens/issuer.test-support.ts'
import type { ProofFault, ProofVerifierOptions, ProvenRequest } from './dpop.ts'
import { NONCE_STEP_MS, Nonces } from './dpop.ts'
import {
  CLIENT,
  jktOf,
  judge,
  PUBLIC_URL,
  proofOf,
  proofVerifierOf,
  REQUEST,
  TOKEN,
} from './proofs.test-support.ts'

const STEP = 'RFC 9449 section 4.3 step'

function verifierOf(changes: Partial<ProofVerifierOptions> = {}) {
  return proofVerifierOf(changes)
}

/** The verdict on the proof by a verifier that remembers nothing. */
function verdictOf(proof: string | undefined, changes: Partial<ProvenRequest> = {}): ProofFault | undefined {
  return judge(verifierOf().verifier, proof, { ...REQUEST, ...changes })
}

function assertInvalid(fault: ProofFault | undefined, cause: RegExp): void {
  assert.equal(fault?.error, 'invalid_dpop_proof')
  assert.match(fault.cause, cause)
  assert.equal(fault.description, 'The DPoP proof is invalid')
}

/** A proof with a right signature over exactly this text. */
function rawProof(header: string, payload: string): string {
  return signText(`${encode(header)}.${encode(payload)}`, CLIENT)
}

test('the proof of RFC 9449 section 7.1 is good for its token, key, method and URL at its time, once', () => {
  const proof =
    'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA'
  const request = {
    method: 'GET',
    path: '/protectedresource',
    token: 'Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU',
    jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I',
  }
  assert.equal(sha256(request.token), 'fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo')
  const { verifier, time } = verifierOf({ publicUrls: ['https://resource.example.org'] })
  time.nowMs = 1_562_262_618_000
  assert.equal(judge(verifier, proof, request), undefined)
  assertInvalid(judge(verifier, proof, request), /replayed/)
})

test('the proof of RFC 9449 section 4.1, made for a token endpoint, has no ath and is no good here', () => {
  const proof =
    'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg'
  assertInvalid(verdictOf(proof), /^ath/)
})

for (const alg of ['ES256', 'PS256', 'EdDSA', 'Ed25519'] as const) {
  test(`a proof that jose signed with ${alg} is good, and so is the next, whose key is remembered`, async () => {
    const key = signingKey(alg === 'Ed25519' ? 'EdDSA' : alg).privateKey
    const { verifier } = verifierOf()
    for (let use = 0; use < 2; use++) {
      assert.equal(judge(verifier, await proofOf({ key, alg }), { ...REQUEST, jkt: jktOf(key) }), undefined)
    }
  })
}

test(`${STEP} 1: a request without a proof, or with more than one, is refused`, async () => {
  assertInvalid(verdictOf(undefined), /no DPoP header/)
  assertInvalid(verdictOf(`${await proofOf()}, ${await proofOf()}`), /more than one/)
  assertInvalid(verdictOf(`${await proofOf()},`), /more than one/)
})

test(`${STEP} 2: what is no single well-formed JWT is refused`, async () => {
  const good = await proofOf()
  const [header, payload, signature] = good.split('.')
  for (const [proof, cause] of [
    ['', /not three parts/],
    ['a.b', /not three parts/],
    [`${good}.x`, /not three parts/],
    [`${header}.${payload}.`, /signature is not base64url/],
    [`${header}.${payload}.${signature}=`, /signature is not base64url/],
    [`${header} .${payload}.${signature}`, /header is not base64url/],
    [`${good} `, /signature is not base64url/],
    [rawProof('[]', '{}'), /header is not a JSON object/],
    [rawProof('{"alg":"ES256"}', 'x'), /payload is not JSON/],
    [rawProof('{"alg":"ES256","alg":"ES256"}', '{}'), /header has a member twice/],
    [rawProof('{"jwk":{"x":"a","x":"b"}}', '{}'), /header has a member twice/],
    [rawProof('{}', '{"jti":"a","jti":"b"}'), /payload has a member twice/],
  ] as const) {
    assertInvalid(verdictOf(proof), cause)
  }
})

test('a proof of more than 4 KiB is refused, one of 4 KiB is not', async () => {
  const short = await proofOf({ claims: { pad: '' } })
  const room = Math.floor(((4096 - short.length) * 3) / 4)
  const longest = await proofOf({ claims: { pad: 'x'.repeat(room) } })
  assert.ok(longest.length <= 4096 && longest.length > 4090)
  assert.equal(verdictOf(longest), undefined)
  assertInvalid(verdictOf(await proofOf({ claims: { pad: 'x'.repeat(room + 4) } })), /longer than 4096/)
})

const badClaims: readonly (readonly [claims: Members, cause: RegExp])[] = [
  [{ jti: undefined }, /^jti/],
  [{ jti: '' }, /^jti/],
  [{ jti: 1 }, /^jti/],
  [{ jti: 'x'.repeat(257) }, /^jti/],
  [{ htm: undefined }, /^htm/],
  [{ htm: ['POST'] }, /^htm/],
  [{ htu: undefined }, /^htu/],
  [{ htu: [`${PUBLIC_URL}/api/transfer`] }, /^htu/],
  [{ iat: undefined }, /^iat/],
  [{ iat: String(NOW_SECONDS) }, /^iat/],
  [{ iat: null }, /^iat/],
  [{ exp: String(NOW_SECONDS + 10) }, /^exp/],
  [{ exp: null }, /^exp/],
  [{ nbf: 'now' }, /^nbf/],
  [{ ath: undefined }, /^ath/],
  [{ ath: null }, /^ath/],
]

test(`${STEP} 3: a proof without one of its claims, or with one that is not what it should be, is refused`, async () => {
  for (const [claims, cause] of badClaims) assertInvalid(verdictOf(await proofOf({ claims })), cause)
  const infinite = JSON.stringify({ jti: 'a', htm: 'POST', htu: 'x', ath: 'x' }).replace('}', ',"iat":1e400}')
  const header = JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: publicJwk(CLIENT) })
  assertInvalid(verdictOf(rawProof(header, infinite)), /^iat/)
})

test(`${STEP} 4: a typ other than dpop+jwt is refused`, async () => {
  for (const typ of [
    undefined,
    'JWT',
    'at+jwt',
    'DPoP+JWT',
    'application/dpop+jwt',
    'dpop+jwt ',
    ['dpop+jwt'],
  ]) {
    assertInvalid(verdictOf(await proofOf({ header: { typ } })), /^typ/)
  }
})

test(`${STEP} 5: none, a symmetric algorithm, RS256 and any other that is not on the list are refused`, async () => {
  const good = JSON.parse(Buffer.from((await proofOf()).split('.')[1] ?? '', 'base64url').toString())
  for (const alg of [
    'none',
    'None',
    'HS256',
    'ES384',
    'ES256K',
    'RS256',
    'Ed448',
    '',
    undefined,
    ['ES256'],
  ]) {
    const header = JSON.stringify({ typ: 'dpop+jwt', alg, jwk: publicJwk(CLIENT) })
    assertInvalid(verdictOf(rawProof(header, JSON.stringify(good))), /^alg/)
  }
  const rsa = signingKey('RS256').privateKey
  const proof = await proofOf({ key: rsa, alg: 'RS256' })
  assertInvalid(verdictOf(proof, { jkt: jktOf(rsa) }), /^alg "RS256"/)
})

test(`${STEP} 5: an algorithm that does not fit the jwk is refused`, async () => {
  const rsa = publicJwk(signingKey('PS256').privateKey)
  assertInvalid(verdictOf(await proofOf({ header: { jwk: rsa } })), /^alg ES256 is not what the jwk is for/)
  const pinned = { ...publicJwk(CLIENT), alg: 'EdDSA' }
  assertInvalid(verdictOf(await proofOf({ header: { jwk: pinned } })), /^the jwk is of a kind not accepted/)
})

test(`${STEP} 5: a jwk that is none, or of a kind or a size that is not accepted, is refused`, async () => {
  const { privateKey: p384 } = generateKeyPairSync('ec', { namedCurve: 'P-384' })
  const good = publicJwk(CLIENT)
  for (const [jwk, cause] of [
    [undefined, /has no jwk/],
    [null, /has no jwk/],
    [[good], /has no jwk/],
    ['jwk', /has no jwk/],
    [{}, /^the jwk is of a kind/],
    [{ kty: 'oct', k: 'AAAA' }, /private member "k"/],
    [publicJwk(p384), /^the jwk is of a kind/],
    [{ ...good, use: 'enc' }, /^the jwk is not for signatures/],
    [{ ...good, key_ops: ['sign'] }, /^the jwk is not for verifying/],
    [{ ...good, y: undefined }, /^the jwk lacks a member/],
    [{ ...good, x: 5 }, /^the jwk lacks a member/],
  ] as const) {
    assertInvalid(verdictOf(await proofOf({ header: { jwk } })), cause)
  }
})

test(`${STEP} 5: a key that cannot be imported is refused, even if the token is bound to it`, async () => {
  const { privateKey: weak } = generateKeyPairSync('rsa', { modulusLength: 1024 })
  const payload = Buffer.from((await proofOf()).split('.')[1] ?? '', 'base64url').toString()
  const header = JSON.stringify({ typ: 'dpop+jwt', alg: 'PS256', jwk: publicJwk(weak) })
  const proof = `${encode(header)}.${encode(payload)}.AAAA`
  assertInvalid(verdictOf(proof, { jkt: jktOf(weak) }), /^the jwk has a modulus of 1024 bits/)
})

test(`${STEP} 6: a signature that is not of the jwk, or not over these words, is refused`, async () => {
  const [header, payload, signature] = (await proofOf()).split('.')
  const [otherHeader, otherPayload] = (await proofOf()).split('.')
  assert.equal(header, otherHeader)
  assertInvalid(verdictOf(`${header}.${otherPayload}.${signature}`), /^the signature/)
  assertInvalid(verdictOf(`${header}.${payload}.AAAA`), /^the signature/)
  const flipped = Buffer.from(signature ?? '', 'base64url')
  flipped[10]! ^= 1
  assertInvalid(verdictOf(`${header}.${payload}.${flipped.toString('base64url')}`), /^the signature/)
  const thief = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  assertInvalid(
    verdictOf(await proofOf({ key: thief, header: { jwk: publicJwk(CLIENT) } })),
    /^the signature/,
  )
})

test(`${STEP} 6: header extensions that change what is signed are refused`, async () => {
  const header = { typ: 'dpop+jwt', alg: 'ES256', jwk: publicJwk(CLIENT) }
  for (const [name, value] of [
    ['crit', ['exp']],
    ['b64', false],
    ['b64', true],
  ] as const) {
    const proof = rawProof(JSON.stringify({ ...header, [name]: value }), '{}')
    assertInvalid(verdictOf(proof), new RegExp(`^the header has ${name}`))
  }
})

test(`${STEP} 7: a jwk with a private member is refused, also when the public key of it is remembered`, async () => {
  const { verifier } = verifierOf()
  assert.equal(judge(verifier, await proofOf(), REQUEST), undefined)
  const jwk = CLIENT.export({ format: 'jwk' })
  assertInvalid(judge(verifier, await proofOf({ header: { jwk } }), REQUEST), /private member "d"/)
})

test(`${STEP} 8: a proof for another method is refused, and methods are told apart by case`, async () => {
  for (const htm of ['GET', 'post', 'POST ', 'PUT', '']) {
    assertInvalid(verdictOf(await proofOf({ claims: { htm } })), /^htm/)
  }
})

test(`${STEP} 9: the URL is compared without query and fragment, after normalisation`, async () => {
  for (const htu of [
    'https://api.example/api/transfer?x=1',
    'https://api.example/api/transfer#x',
    'https://api.example:443/api/transfer',
    'HTTPS://API.EXAMPLE/api/transfer',
    'https://api.example/api/./x/../%74ransfer',
  ]) {
    assert.equal(verdictOf(await proofOf({ claims: { htu } })), undefined, htu)
  }
})

test(`${STEP} 9: a proof for another URL is refused`, async () => {
  for (const htu of [
    'http://api.example/api/transfer',
    'https://api.example:8443/api/transfer',
    'https://evil.example/api/transfer',
    'https://api.example.evil.example/api/transfer',
    'https://api.example@evil.example/api/transfer',
    'https://api.example/api/balance',
    'https://api.example/api/transfer/',
    'https://api.example/API/transfer',
    'https://api.example/api/transfer/../balance',
    '/api/transfer',
    'api.example/api/transfer',
    '',
  ]) {
    assertInvalid(verdictOf(await proofOf({ claims: { htu } })), /^htu/)
  }
})

test('the cause of a refused htu leaves out its query and fragment', async () => {
  for (const htu of ['https://a.example/b?pin=1234', 'https://a.example/b#1234']) {
    assertInvalid(verdictOf(await proofOf({ claims: { htu } })), /^htu "https:\/\/a\.example\/b" is not/)
  }
})

test(`${STEP} 9: each public URL is accepted, with the path that a proxy takes off`, async () => {
  const { verifier } = verifierOf({
    publicUrls: ['https://API.example:443/', 'http://127.0.0.1:8080/bank/'],
  })
  for (const htu of ['https://api.example/api/transfer', 'http://127.0.0.1:8080/bank/api/transfer']) {
    assert.equal(judge(verifier, await proofOf({ claims: { htu } }), REQUEST), undefined, htu)
  }
  const htu = 'http://127.0.0.1:8080/api/transfer'
  assertInvalid(judge(verifier, await proofOf({ claims: { htu } }), REQUEST), /^htu/)
})

test('a public URL that no request could have is a fault at the start', () => {
  for (const url of ['api.example', 'https://a@api.example', 'https://api.example/a;b']) {
    assert.throws(() => verifierOf({ publicUrls: [url] }), TypeError)
  }
})

test(`${STEP} 10: where a nonce is required, only one in force is accepted, and it is renewed`, async () => {
  const time = { nowMs: NOW_SECONDS * 1000 }
  const secret = randomBytes(32)
  const nonces = new Nonces(
    () => secret,
    () => time.nowMs,
  )
  const { verifier } = verifierOf({ nonces, clock: () => time.nowMs })
  for (const nonce of [undefined, '', 'made up', 5]) {
    const fault = judge(verifier, await proofOf({ claims: { nonce } }), REQUEST)
    assert.equal(fault?.error, 'use_dpop_nonce')
    assert.equal(fault.description, 'Resource server requires nonce in DPoP proof')
  }
  const nonce = verifier.nonce()
  assert.equal(judge(verifier, await proofOf({ claims: { nonce } }), REQUEST), undefined)
  time.nowMs += 2 * NONCE_STEP_MS
  const late = await proofOf({ claims: { nonce, iat: time.nowMs / 1000 } })
  assert.equal(judge(verifier, late, REQUEST)?.error, 'use_dpop_nonce')
  const renewed = await proofOf({ claims: { nonce: verifier.nonce(), iat: time.nowMs / 1000 } })
  assert.equal(judge(verifier, renewed, REQUEST), undefined)
})

test(`${STEP} 10: where no nonce is required, none is asked for, and a sent one is ignored`, async () => {
  const { verifier } = verifierOf()
  assert.equal(verifier.nonce(), undefined)
  assert.equal(judge(verifier, await proofOf({ claims: { nonce: 'of another server' } }), REQUEST), undefined)
})

test(`${STEP} 11: a proof made 60 s ago to 10 s ahead is good, older and later ones are refused (FAPI 2.0 section 5.3.2.1)`, async () => {
  for (const offset of [-60, -59.5, 0, 9.5, 10]) {
    assert.equal(verdictOf(await proofOf({ claims: { iat: NOW_SECONDS + offset } })), undefined, `${offset}`)
  }
  for (const offset of [-60.001, -61, 10.001, 11, 3600, -1e9, 1e300]) {
    assertInvalid(verdictOf(await proofOf({ claims: { iat: NOW_SECONDS + offset } })), /^iat/)
  }
})

test('a proof is refused before its nbf and after its exp', async () => {
  for (const claims of [{ exp: NOW_SECONDS + 1 }, { nbf: NOW_SECONDS + 10 }, { nbf: 0, exp: 4e9 }])
    assert.equal(verdictOf(await proofOf({ claims })), undefined, JSON.stringify(claims))
  for (const exp of [NOW_SECONDS, NOW_SECONDS - 30, 0, -1])
    assertInvalid(verdictOf(await proofOf({ claims: { exp } })), /^exp was \d+ s ago; 0 s are allowed$/)
  assertInvalid(
    verdictOf(await proofOf({ claims: { nbf: NOW_SECONDS + 11 } })),
    /^nbf is 11 s ahead of our clock; 10 s are allowed$/,
  )
})

test(`${STEP} 12: a proof made for another token is refused`, async () => {
  for (const ath of [sha256('other'), '', `${sha256(TOKEN)}=`, Buffer.from(sha256(TOKEN)).toString('hex')]) {
    assertInvalid(verdictOf(await proofOf({ claims: { ath } })), /^ath/)
  }
})

test(`${STEP} 12: a stolen token with a proof by the thief's own key is refused for its binding`, async () => {
  const thief = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const fault = verdictOf(await proofOf({ key: thief }))
  assert.equal(fault?.error, 'invalid_token')
  assert.equal(fault.description, 'Invalid DPoP key binding')
})

test('RFC 9449 section 11.1: a proof is good once, for as long as it could be good at all', async () => {
  const { verifier, time } = verifierOf()
  const early = await proofOf({ claims: { iat: NOW_SECONDS + 10 } })
  assert.equal(judge(verifier, early, REQUEST), undefined)
  for (const laterMs of [0, 1, 60_000, 69_999, 70_000]) {
    time.nowMs = NOW_SECONDS * 1000 + laterMs
    assertInvalid(judge(verifier, early, REQUEST), /replayed/)
  }
  time.nowMs++
  assertInvalid(judge(verifier, early, REQUEST), /^iat/)
})

test('a jti is used up for its key, whatever the request; another key may have the same', async () => {
  const { verifier } = verifierOf()
  const claims = { jti: 'one' }
  assert.equal(judge(verifier, await proofOf({ claims }), REQUEST), undefined)
  const elsewhere = await proofOf({ claims: { ...claims, htm: 'GET', htu: `${PUBLIC_URL}/api/balance` } })
  assertInvalid(judge(verifier, elsewhere, { ...REQUEST, method: 'GET', path: '/api/balance' }), /replayed/)
  const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  assert.equal(judge(verifier, await proofOf({ claims, key }), { ...REQUEST, jkt: jktOf(key) }), undefined)
})

test('a proof that is refused uses up no jti: nobody can spend that of another', async () => {
  const { verifier } = verifierOf()
  const good = await proofOf({ claims: { jti: 'one' } })
  const [header, payload] = good.split('.')
  assertInvalid(judge(verifier, `${header}.${payload}.AAAA`, REQUEST), /^the signature/)
  assertInvalid(judge(verifier, good, { ...REQUEST, method: 'GET' }), /^htm/)
  assert.equal(judge(verifier, good, REQUEST), undefined)
})

test('a proof that cannot be remembered is refused, and not called bad', async () => {
  for (const fault of ['full', 'unwritable'] as const) {
    const { verifier } = verifierOf({ replays: { take: () => fault } })
    const refused = judge(verifier, await proofOf(), REQUEST)
    assert.equal(refused?.error, 'proofs_unavailable')
    assert.match(refused.cause, new RegExp(`${fault}$`))
  }
  const { verifier } = verifierOf({ replays: { take: () => 'crowded' } })
  const refused = judge(verifier, await proofOf(), REQUEST)
  assert.equal(refused?.error, 'proofs_unavailable')
  assert.match(refused.cause, /^no more proofs of this key/)
})

test('no mangled proof passes, and none makes checking throw', async () => {
  const { verifier } = verifierOf()
  const json = fc.jsonValue({ maxDepth: 2 })
  const members = fc.dictionary(fc.constantFrom('typ', 'alg', 'jwk', 'crit', 'kid'), json)
  const claims = fc.dictionary(
    fc.constantFrom('jti', 'htm', 'htu', 'iat', 'ath', 'nonce', 'exp', 'nbf'),
    json,
    {
      minKeys: 1,
    },
  )
  const [header, payload] = (await proofOf()).split('.').map((part) => Buffer.from(part, 'base64url'))
  fc.assert(
    fc.property(members, claims, (headerChanges, claimChanges) => {
      const mangled = rawProof(
        JSON.stringify({ ...JSON.parse(String(header)), ...headerChanges }),
        JSON.stringify({ ...JSON.parse(String(payload)), ath: 'x', ...claimChanges }),
      )
      assert.ok(judge(verifier, mangled, REQUEST)?.error)
    }),
    { numRuns: 500 },
  )
})

test('a proof waits for the shared store, and is neither good nor bad while the store is away', async () => {
  for (const [seen, error] of [
    [undefined, undefined],
    ['replayed', 'invalid_dpop_proof'],
    ['away', 'proofs_unavailable'],
  ] as const) {
    const { verifier } = verifierOf({ replays: { take: () => Promise.resolve(seen) } })
    const fault = verifier.verify(await proofOf(), REQUEST)
    assert.ok(fault instanceof Promise)
    assert.equal((await fault)?.error, error)
  }
})

test('a nonce of a former secret is refused, and a new one is asked for', async () => {
  const secrets = [randomBytes(32), randomBytes(32)] as const
  let secret: Uint8Array = secrets[0]
  const { verifier } = verifierOf({ nonces: new Nonces(() => secret, Date.now) })
  const nonce = verifier.nonce()
  secret = secrets[1]
  assert.notEqual(verifier.nonce(), nonce)
  assert.equal(judge(verifier, await proofOf({ claims: { nonce } }), REQUEST)?.error, 'use_dpop_nonce')
})
