import assert from 'node:assert/strict'
import { createHash, createPublicKey, generateKeyPairSync, verify, type webcrypto } from 'node:crypto'
import { test } from 'node:test'
import { createLocalJWKSet, flattenedVerify } from 'jose'
import { signingKey } from '../tokens/issuer.test-support.ts'
import { signBerlinResponse } from './berlin-group.ts'
import { MessageSigner } from './message-signer.ts'
import { signUkResponse } from './uk-jws.ts'

const PEM = { format: 'pem', type: 'pkcs8' } as const
const RSA = String(signingKey('PS256').privateKey.export(PEM))
const EC = String(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(PEM))
const signerOf = (claims: object) =>
  new MessageSigner({ algorithm: 'rsa-pss-sha512', keyFile: '', alsoPublish: [], ...claims }, [RSA])
const EC_SIGNER = new MessageSigner(
  { algorithm: 'ecdsa-p256-sha256', keyFile: '', alsoPublish: [], iss: 'bank' },
  [EC],
)
const NOW_MS = 1_800_000_000_999
const BODY = Buffer.from('{"Data":{"Status":"AcceptedSettlementInProcess"}}')
const REQUEST = { method: 'POST', target: '/', fields: [], publicUrl: 'https://api.example' }
const RESPONSE = { status: 201, body: BODY, requestId: 'id-1', request: REQUEST, nowMs: NOW_MS }
const CRITICAL = ['iat', 'iss', 'tan'].map((name) => `http://openbanking.org.uk/${name}`)

test('jose verifies a response to a client of UK Open Banking by the published key', async () => {
  const signer = signerOf({ iss: '0015800001041RHAAY' })
  const [, text = ''] =
    /^x-jws-signature: (.*)\r\n$/.exec(signUkResponse(signer, RESPONSE)?.lines ?? '') ?? []
  const [encoded = '', payload, signature = ''] = text.split('.')
  assert.equal(payload, '')
  const keys = createLocalJWKSet(JSON.parse(String(signer.jwks)))
  const crit = Object.fromEntries(CRITICAL.map((name) => [name, true]))
  const verified = (body: Buffer) =>
    flattenedVerify({ protected: encoded, payload: body.toString('base64url'), signature }, keys, {
      crit,
      algorithms: ['PS256'],
    })
  const { protectedHeader } = await verified(BODY)
  assert.deepEqual(protectedHeader, {
    alg: 'PS256',
    typ: 'JOSE',
    kid: signer.keyId,
    [String(CRITICAL[0])]: 1_800_000_000,
    [String(CRITICAL[1])]: '0015800001041RHAAY',
    [String(CRITICAL[2])]: 'openbanking.org.uk',
    crit: CRITICAL,
  })
  await assert.rejects(verified(Buffer.from(`${BODY} `)))
  assert.match(
    atob(String(signUkResponse(signerOf({ iss: 'a', tan: 'b' }), RESPONSE)?.lines.split(/[ .]/)[1])),
    /tan":"b"/,
  )
})

test('a response without a body has no JWS, and none is made without iss or by another kind of key', () => {
  assert.deepEqual(signUkResponse(signerOf({ iss: 'a' }), { ...RESPONSE, body: undefined }), { lines: '' })
  assert.equal(signUkResponse(signerOf({}), RESPONSE), undefined)
  assert.equal(signUkResponse(EC_SIGNER, RESPONSE), undefined)
  assert.equal(signBerlinResponse(EC_SIGNER, RESPONSE), undefined)
})

test('a response to a client of the Berlin Group is signed over its digest and its request id', () => {
  const signer = signerOf({})
  const [key] = JSON.parse(String(signer.jwks)).keys as (webcrypto.JsonWebKey & { readonly kid: string })[]
  for (const body of [BODY, undefined]) {
    const { lines = '' } = signBerlinResponse(signer, { ...RESPONSE, body }) ?? {}
    const digest = `SHA-256=${createHash('sha256')
      .update(body ?? '')
      .digest('base64')}`
    const start = `Digest: ${digest}\r\nSignature: keyId="${key?.kid}",algorithm="rsa-sha256",headers="digest x-request-id",signature="`
    assert.ok(lines.startsWith(start) && lines.endsWith('"\r\n'))
    const signature = Buffer.from(lines.slice(start.length, -3), 'base64')
    const text = Buffer.from(`digest: ${digest}\nx-request-id: id-1`)
    assert.ok(verify('sha256', text, createPublicKey({ format: 'jwk', key: key ?? {} }), signature))
  }
})
