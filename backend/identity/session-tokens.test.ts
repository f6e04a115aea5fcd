import assert from 'node:assert/strict'
import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { describe, it } from 'node:test'
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify, SignJWT } from 'jose'
import type { PublishedKey } from './keys.ts'
import { issueAccessToken, verifyAccessToken } from './session-tokens.ts'

const NOW = new Date('2026-03-01T12:00:00Z')
const NOW_SECONDS = NOW.getTime() / 1000
const PUBLIC_URL = 'https://api.example.com'
const SUBJECT = {
  userId: '01890a5d-ac96-774b-bcce-b302099a8057',
  sessionId: '01890a5d-ac96-774b-bcce-b302099a8058',
  role: 'user',
} as const

/** A token that an earlier version issued to SUBJECT at NOW, with jose, and the key that it signed with. */
const EARLIER_KEY: PublishedKey = {
  kid: 'LS7f-JNXTrFqt6r19NeMsLj8RrosmrkbjDi6QherVsE',
  kty: 'EC',
  crv: 'P-256',
  x: 'XpwsRx4_W8QQDxNYwV4l6Vl9DQ6xCFd1HhVSbHaWLqs',
  y: 'IW4Vs_68qKWWnZRnGoknPM9q89vqLdkv9s3S-dRegaA',
  alg: 'ES256',
  use: 'sig',
}
const EARLIER_TOKEN =
  'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6IkxTN2YtSk5YVHJGcXQ2cjE5TmVNc0xqOFJyb3NtcmtiakRpNlFoZXJWc0UifQ.' +
  'eyJzaWQiOiIwMTg5MGE1ZC1hYzk2LTc3NGItYmNjZS1iMzAyMDk5YTgwNTgiLCJjbGllbnRfaWQiOiJzZXNzaW9uIiwic2NvcGUiOiJhY2NvdW50' +
  'czpyZWFkIHRyYW5zZmVyczp3cml0ZSBpZGVudGl0eTp2ZXJpZnkiLCJpc3MiOiJodHRwczovL2FwaS5leGFtcGxlLmNvbSIsImF1ZCI6Imh0dHBz' +
  'Oi8vYXBpLmV4YW1wbGUuY29tL2FwaSIsInN1YiI6IjAxODkwYTVkLWFjOTYtNzc0Yi1iY2NlLWIzMDIwOTlhODA1NyIsImp0aSI6IjAxYTIxOWQw' +
  'LTdhY2MtNzI5Mi04MzQ4LTE5MzM2YTliNmY2MiIsImlhdCI6MTc3MjM2NjQwMCwiZXhwIjoxNzcyMzY3MDAwfQ.' +
  'U7rA653P5r5XegZF4CLO4I1JpuPCCxavL4POdfdIj6VwUy2naE5LSeZ1zPhRxGdRParXF0sQh5ijJXgL6V5qkA'

interface Pair {
  readonly privateKey: KeyObject
  readonly published: PublishedKey
}

function pairOf(kid: string): Pair {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  return { privateKey, published: { kty: 'EC', crv: 'P-256', x, y, kid, alg: 'ES256', use: 'sig' } }
}

function issuerOf(pair: Pair, others: readonly PublishedKey[] = [], now = NOW) {
  const current = { kid: pair.published.kid, privateKey: pair.privateKey }
  return {
    publicUrl: PUBLIC_URL,
    keys: { current, published: { keys: [pair.published, ...others] } },
    clock: () => now,
  }
}

const PAIR = pairOf('one')
const ISSUER = issuerOf(PAIR)
const HEADER = { alg: 'ES256', typ: 'at+jwt', kid: 'one' }
const CLAIMS = {
  iss: PUBLIC_URL,
  aud: `${PUBLIC_URL}/api`,
  sub: SUBJECT.userId,
  sid: SUBJECT.sessionId,
  client_id: 'session',
  iat: NOW_SECONDS,
  exp: NOW_SECONDS + 600,
}

/** A token signed by jose, which shares no code with the tested program. */
const signed = (claims: object, header: object = {}, key: KeyObject = PAIR.privateKey) =>
  new SignJWT({ ...CLAIMS, ...claims }).setProtectedHeader({ ...HEADER, ...header }).sign(key)

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const unsigned = (header: object) => `${part({ ...HEADER, ...header })}.${part(CLAIMS)}`
const signatureOf = (text: string) =>
  sign('sha256', Buffer.from(text), { key: PAIR.privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')

describe('access tokens of sessions', () => {
  it('have the header and the claims of RFC 9068, as jose reads them', async () => {
    const token = issueAccessToken(ISSUER, SUBJECT)
    const { payload, protectedHeader } = await jwtVerify(
      token,
      createLocalJWKSet(ISSUER.keys.published as JSONWebKeySet),
      {
        issuer: PUBLIC_URL,
        audience: `${PUBLIC_URL}/api`,
        typ: 'at+jwt',
        algorithms: ['ES256'],
        currentDate: NOW,
      },
    )
    assert.deepEqual(protectedHeader, HEADER)
    const { jti, ...claims } = payload
    assert.match(String(jti), /^[0-9a-f-]{36}$/)
    assert.deepEqual(claims, { ...CLAIMS, scope: 'accounts:read transfers:write identity:verify' })
    assert.equal(verifyAccessToken(ISSUER, token)?.sid, SUBJECT.sessionId)
  })

  it('of an earlier version are accepted, and have the same members', () => {
    const before = verifyAccessToken(issuerOf(PAIR, [EARLIER_KEY]), EARLIER_TOKEN)
    assert.equal(before?.sid, SUBJECT.sessionId)
    const now = verifyAccessToken(ISSUER, issueAccessToken(ISSUER, SUBJECT))
    assert.deepEqual({ ...now, jti: '' }, { ...before, jti: '' })
  })

  it('are accepted as long as their key is published, whichever signs now', () => {
    const token = issueAccessToken(ISSUER, SUBJECT)
    const next = pairOf('two')
    assert.ok(verifyAccessToken(issuerOf(next, [PAIR.published]), token))
    assert.equal(verifyAccessToken(issuerOf(next), token), undefined)
  })

  it('are accepted for 600 seconds', () => {
    const token = issueAccessToken(ISSUER, SUBJECT)
    const at = (seconds: number) => issuerOf(PAIR, [], new Date(NOW.getTime() + seconds * 1000))
    assert.ok(verifyAccessToken(at(599), token))
    assert.equal(verifyAccessToken(at(600), token), undefined)
  })

  it('are refused when their signature, header, times or claims are not as we issue them', async () => {
    assert.ok(verifyAccessToken(ISSUER, await signed({})), 'the unchanged token is accepted')
    const publicKey = createPublicKey({ key: { ...PAIR.published }, format: 'jwk' })
    const hmac = (secret: string | Buffer) => {
      const text = unsigned({ alg: 'HS256' })
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
    }
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
    const [header = '', , signature = ''] = (await signed({})).split('.')
    const cases: Readonly<Record<string, string>> = {
      'another algorithm': await signed({}, { alg: 'ES384' }, p384.privateKey),
      RSA: await signed({}, { alg: 'RS256' }, rsa.privateKey),
      none: `${unsigned({ alg: 'none' })}.`,
      'none, with the signature of another': `${unsigned({ alg: 'none' })}.${signature}`,
      'no signature': `${unsigned({})}.`,
      'HMAC with the public key as PEM': hmac(publicKey.export({ type: 'spki', format: 'pem' })),
      'HMAC with the public key as DER': hmac(publicKey.export({ type: 'spki', format: 'der' })),
      'HMAC with the public key as JWK': hmac(JSON.stringify(PAIR.published)),
      'another key': await signed({}, {}, pairOf('one').privateKey),
      'an unknown key': await signed({}, { kid: 'two' }),
      'no key named': await signed({}, { kid: undefined }),
      'other claims under the signature': `${header}.${part({ ...CLAIMS, sub: 'mallory' })}.${signature}`,
      expired: await signed({ iat: NOW_SECONDS - 600, exp: NOW_SECONDS }),
      'good for too long': await signed({ iat: NOW_SECONDS - 600, exp: NOW_SECONDS + 3600 }),
      'without an expiry': await signed({ exp: undefined }),
      'without a time of issue': await signed({ iat: undefined }),
      'not yet good': await signed({ nbf: NOW_SECONDS + 60 }),
      'another audience': await signed({ aud: 'https://other.example/api' }),
      'no audience': await signed({ aud: undefined }),
      'another issuer': await signed({ iss: 'https://other.example' }),
      'an ID token': await signed({}, { typ: 'JWT' }),
      'no type': await signed({}, { typ: undefined }),
      'no JSON': `${part(HEADER)}.bm8.${signature}`,
      'no JSON in the header': 'bm8.bm8.bm8',
      'no JWT': 'q83vEjRW',
      nothing: '',
    }
    for (const [name, token] of Object.entries(cases)) {
      assert.equal(verifyAccessToken(ISSUER, token), undefined, name)
    }
  })

  it('are refused with an extension that must be understood', () => {
    const withoutIt = unsigned({})
    assert.ok(verifyAccessToken(ISSUER, `${withoutIt}.${signatureOf(withoutIt)}`))
    const text = unsigned({ crit: ['exp'] })
    assert.equal(verifyAccessToken(ISSUER, `${text}.${signatureOf(text)}`), undefined)
  })
})
