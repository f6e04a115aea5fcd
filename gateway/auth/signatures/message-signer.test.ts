import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { combinedValue, Field } from '../../edge/syntax/field.ts'
import { readKeys } from '../keys/jwks.ts'
import { signingKey } from '../tokens/issuer.test-support.ts'
import { digestFault } from './content-digest.ts'
import { MessageSigner } from './message-signer.ts'
import { REGISTERED } from './message-verifier.ts'
import { signRequest } from './request-signer.ts'
import { type SignedRequest, signatureBase } from './signature-base.ts'
import { readSignatures } from './signature-fields.ts'
import { signFapiResponse } from './signature-forms.ts'

const PEM = { format: 'pem', type: 'pkcs8' } as const
const KEYS = {
  'ecdsa-p256-sha256': generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(PEM),
  ed25519: generateKeyPairSync('ed25519').privateKey.export(PEM),
  'rsa-pss-sha512': signingKey('PS512').privateKey.export(PEM),
}
type Algorithm = keyof typeof KEYS
const signerOf = (algorithm: Algorithm) =>
  new MessageSigner({ algorithm, keyFile: '', alsoPublish: [] }, [String(KEYS[algorithm])])
const ED = signerOf('ed25519')
const NOW_MS = 1_800_000_000_000

/** Verifies a request by the published keys, as the gateway verifies requests of clients. */
function isVerified(
  signer: MessageSigner,
  request: SignedRequest,
  algorithm: Algorithm = 'ed25519',
): boolean {
  const signature = (readSignatures(request.fields) as Exclude<ReturnType<typeof readSignatures>, string>).at(
    -1,
  )
  assert.ok(signature)
  const keys = readKeys(JSON.parse(String(signer.jwks)), [])
  const check = keys
    .find(({ kid }) => kid === signature.keyid)
    ?.checks.get(REGISTERED.get(algorithm) ?? 'EdDSA')
  const { base } = signatureBase(request, signature)
  return base !== undefined && check?.({ signed: base, signature: signature.value }) === true
}

test('each key is published with its thumbprint as kid, and verifies what it has signed', () => {
  for (const algorithm of Object.keys(KEYS) as Algorithm[]) {
    const signer = signerOf(algorithm)
    const { keys } = JSON.parse(String(signer.jwks))
    assert.deepEqual([keys.length, 'd' in keys[0], keys[0].use], [1, false, 'sig'])
    const request = { method: 'GET', uri: 'https://a/b', fields: [] }
    const fields = signRequest(signer, { ...request, body: undefined, nowMs: NOW_MS })
    assert.equal(isVerified(signer, { ...request, target: '/b', fields }, algorithm), true, algorithm)
  }
})

test('a key in two files is published once', () => {
  const pem = String(KEYS.ed25519)
  const signer = new MessageSigner({ algorithm: 'ed25519', keyFile: '', alsoPublish: [] }, [pem, pem])
  assert.equal(JSON.parse(String(signer.jwks)).keys.length, 1)
})

const text = fc
  .string({ unit: fc.constantFrom(...'aZ9 ,;:="()é'), maxLength: 20 })
  .map((value) => value.trim())
const names = fc.constantFrom('Authorization', 'X-Auth-Subject', 'X-Auth-Scope', 'X-Note', 'Client-Cert')
const fieldLists = fc.array(
  fc.tuple(names, text).map(([name, value]) => new Field(name, value)),
  { maxLength: 6 },
)

test('a request to a service is verified as it was sent, and not with another method, target, caller or body', () => {
  const requests = fc.record({
    method: fc.constantFrom('GET', 'POST'),
    // Used because `fc.webPath` takes a second to make.
    path: fc
      .array(fc.constantFrom('a', 'Z9', '/', '%20', '%C3%A9', '~', '.', ':@', '?x=', '&'), { maxLength: 8 })
      .map((parts) => `/${parts.join('')}`),
    fields: fieldLists,
    body: fc.option(fc.uint8Array({ maxLength: 40 }).map(Buffer.from), { nil: undefined }),
  })
  fc.assert(
    fc.property(requests, ({ method, path, fields, body }) => {
      const uri = `https://service.example${path}`
      const added = signRequest(ED, { method, uri, fields, body, nowMs: NOW_MS })
      const request = { method, uri, target: path, fields: [...fields, ...added] }
      assert.equal(isVerified(ED, request), true)
      const digest = combinedValue(request.fields, 'content-digest')
      assert.equal(digest === undefined, body === undefined)
      if (digest !== undefined && body !== undefined) assert.equal(digestFault(digest, body), undefined)
      assert.equal(isVerified(ED, { ...request, method: 'PUT' }), false)
      assert.equal(isVerified(ED, { ...request, uri: `${uri}/` }), false)
      for (const lower of [
        'authorization',
        'client-cert',
        'x-auth-subject',
        'x-auth-scope',
        'content-digest',
      ]) {
        const at = request.fields.findIndex((field) => field.lower === lower)
        if (at === -1) continue
        const changed = request.fields.with(at, new Field(lower, `${request.fields[at]?.value}x`))
        assert.equal(isVerified(ED, { ...request, fields: changed }), false, lower)
      }
    }),
  )
})

test("a client's signature that has our label stays, and ours then has a label that nobody can foresee", () => {
  const own = [new Field('Signature-Input', 'gateway=("@method")'), new Field('Signature', 'gateway=:AA==:')]
  const request = { method: 'GET', uri: 'https://a/', fields: own, body: undefined, nowMs: NOW_MS }
  const labels = [1, 2].map(() => signRequest(ED, request)[0]?.value.split('=')[0])
  assert.match(String(labels[0]), /^gateway-[0-9a-f-]{36}$/)
  assert.notEqual(labels[0], labels[1])
  const fields = [...own, ...signRequest(ED, request)]
  assert.equal(isVerified(ED, { ...request, target: '/', fields }), true)
})

test('signing a response gives its header lines, and what its record says of the signature', () => {
  const request = { method: 'GET', target: '/', publicUrl: 'https://a', fields: [] }
  const { lines, signature } = signFapiResponse(ED, {
    status: 200,
    body: Buffer.from('x'),
    requestId: 'id',
    request,
    nowMs: NOW_MS,
  })
  const { label, keyId, algorithm, publicUrl, digest, input, value } = signature
  assert.deepEqual([algorithm, publicUrl], ['EdDSA', 'https://a'])
  assert.equal(
    lines,
    `Content-Digest: ${digest}\r\nSignature-Input: ${label}=${input}\r\nSignature: ${label}=:${value}:\r\n`,
  )
  assert.equal(
    input,
    `("@status" "content-digest" "@method";req "@target-uri";req);created=${NOW_MS / 1000};keyid="${keyId}";alg="ed25519";tag="fapi-2-response"`,
  )
  assert.equal(digestFault(String(digest), Buffer.from('x')), undefined)
})

/** Key of RFC 9421 appendix B.1.4. Ed25519 always gives the same signature for the same message. */
const RFC_KEY =
  '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----'

test('a response, and a request with a field beyond ASCII, get the signatures that httpsign 0.5.0 in Go has verified', () => {
  const signer = new MessageSigner({ algorithm: 'ed25519', keyFile: '', alsoPublish: [] }, [RFC_KEY])
  const body = Buffer.from('{"amount":"12.50"}')
  const received = [
    new Field('Content-Digest', 'sha-256=:Bl+/8R1O1Q0BB4Gm2bpLhNTAkMqBE0vBzQkcvmOBiBM=:'),
    new Field('Signature-Input', 'go=("@method");created=1'),
    new Field('Signature', 'go=:AA==:'),
  ]
  const { lines } = signFapiResponse(signer, {
    status: 201,
    body,
    requestId: 'id',
    request: {
      method: 'POST',
      target: '/a//b%2Dc?x=%7E',
      publicUrl: 'https://api.bank.example',
      fields: received,
    },
    nowMs: NOW_MS,
  })
  assert.match(
    lines,
    /\nSignature: gateway=:R3QFfQQx\/Y8go3MYsk557tcff\/rt4R\+k1yP0ZB5y9nHCm\+vmswMDTgeIECE03DXzHUry9s0dBDbRv2S\+rkJoAQ==:\r\n$/,
  )
  const caller = [
    'Authorization: Bearer a.b.c',
    'X-Auth-Subject: Zo\u00eb',
    'X-Auth-Scope: a',
    'X-Auth-Scope: b',
  ]
  const fields = caller.map((line) => new Field(...(line.split(': ') as [string, string])))
  const uri = 'http://service.example/v2?x=%7E'
  const sent = signRequest(signer, { method: 'POST', uri, fields, body, nowMs: NOW_MS })
  assert.equal(
    sent.at(-1)?.value,
    'gateway=:DEi93AC6Fjl0nXhWzZ0lyubaJYZrYzx+5gxd2VJ1hcZzL+zVYJ+OhogxnqBTMY3jfK1+3hPr+u0KNGBb/JymCg==:',
  )
})
