import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { sha256 } from '../keys/thumbprint.ts'
import type { Binding } from './binding.ts'
import { type Presentation, provePossession } from './possession.ts'
import { proofOf, proofVerifierOf, REQUEST, TOKEN } from './proofs.test-support.ts'

const CERTIFICATE = shown('certificate')
const TO_KEY: Binding = { jkt: REQUEST.jkt, thumbprint: undefined }
const TO_CERTIFICATE: Binding = { jkt: undefined, thumbprint: CERTIFICATE.thumbprintBase64url }
const TO_BOTH: Binding = { jkt: REQUEST.jkt, thumbprint: CERTIFICATE.thumbprintBase64url }

function shown(certificate: string) {
  return { authorized: true, reason: undefined, thumbprintBase64url: sha256(certificate) }
}

/** The verdict on a bearer token alone, except for what the case changes. */
function prove(binding: Binding | undefined, changes: Partial<Presentation> = {}) {
  const { method, path } = REQUEST
  const nothing = { proof: undefined, certificate: undefined }
  const presentation: Presentation = { scheme: 'bearer', token: TOKEN, method, path, ...nothing, ...changes }
  const fault = provePossession(proofVerifierOf().verifier, binding, presentation)
  assert.ok(!(fault instanceof Promise))
  return fault
}

test('FAPI 2.0 section 5.3.4-1: a token without a binding is good as Bearer, and a DPoP header beside it is ignored', () => {
  assert.equal(prove(undefined), undefined)
  assert.equal(prove(undefined, { proof: 'nonsense', certificate: CERTIFICATE }), undefined)
})

test('FAPI 2.0 section 5.3.4-1: a token bound to a key is good as DPoP with its proof', async () => {
  assert.equal(prove(TO_KEY, { scheme: 'dpop', proof: await proofOf() }), undefined)
})

test('RFC 9449 section 7.1: a token without a binding is refused as DPoP, even with a good proof', async () => {
  for (const binding of [undefined, TO_CERTIFICATE]) {
    const fault = prove(binding, { scheme: 'dpop', proof: await proofOf(), certificate: CERTIFICATE })
    assert.equal(fault?.error, 'invalid_token')
    assert.match(fault.cause, /^no jkt/)
  }
})

test('RFC 9449 section 7.2: a token bound to a key is refused as Bearer, with or without its proof', async () => {
  for (const proof of [undefined, await proofOf()]) {
    const fault = prove(TO_KEY, { proof })
    assert.equal(fault?.error, 'invalid_token')
    assert.match(fault.cause, /^jkt: presented as Bearer/)
  }
})

test('FAPI 2.0 section 5.3.4-5: a stolen token that is bound to a key is refused without a proof, and with the proof of another', async () => {
  assert.equal(prove(TO_KEY, { scheme: 'dpop' })?.error, 'invalid_dpop_proof')
  const thief = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  assert.equal(
    prove(TO_KEY, { scheme: 'dpop', proof: await proofOf({ key: thief }) })?.error,
    'invalid_token',
  )
})

test('FAPI 2.0 section 5.3.4-5: a stolen token is refused with a proof that was stolen for another token or request', async () => {
  const proof = await proofOf()
  for (const changes of [{ token: 'other' }, { method: 'GET' }, { path: '/api/balance' }]) {
    assert.equal(prove(TO_KEY, { scheme: 'dpop', proof, ...changes })?.error, 'invalid_dpop_proof')
  }
})

test('RFC 8705 section 3: a token bound to a certificate is good over its connection only', () => {
  assert.equal(prove(TO_CERTIFICATE, { certificate: CERTIFICATE }), undefined)
  const other = shown('of the thief')
  for (const certificate of [undefined, other, { ...other, thumbprintBase64url: '' }]) {
    assert.equal(prove(TO_CERTIFICATE, { certificate })?.error, 'invalid_token')
  }
})

test('a token bound to a certificate that is not accepted is refused with the reason, and does not count as a guess', () => {
  const certificate = { ...CERTIFICATE, authorized: false, reason: 'it was revoked' }
  const fault = prove(TO_CERTIFICATE, { certificate })
  assert.deepEqual([fault?.error, fault?.ofRefusedCertificate], ['invalid_token', true])
  assert.match(fault?.cause ?? '', /^x5t#S256: .*: it was revoked$/)
  assert.match(fault?.description ?? '', /the one presented is not accepted$/)
  for (const other of [undefined, shown('of the thief')])
    assert.equal(prove(TO_CERTIFICATE, { certificate: other })?.ofRefusedCertificate, undefined)
})

test('a token bound to a key and a certificate needs both', async () => {
  const proof = () => proofOf()
  assert.equal(prove(TO_BOTH, { scheme: 'dpop', proof: await proof(), certificate: CERTIFICATE }), undefined)
  assert.match(prove(TO_BOTH, { scheme: 'dpop', proof: await proof() })?.cause ?? '', /no client certificate/)
  assert.match(prove(TO_BOTH, { certificate: CERTIFICATE })?.cause ?? '', /presented as Bearer/)
  assert.match(prove(TO_BOTH, { scheme: 'dpop', certificate: CERTIFICATE })?.cause ?? '', /no DPoP header/)
})

test('every public sentence has only characters that a challenge may have', async () => {
  for (const fault of [
    prove(TO_KEY),
    prove(undefined, { scheme: 'dpop' }),
    prove(TO_CERTIFICATE),
    prove(TO_CERTIFICATE, { certificate: shown('x') }),
    prove(TO_CERTIFICATE, { certificate: { ...CERTIFICATE, authorized: false } }),
    prove(TO_KEY, { scheme: 'dpop' }),
  ]) {
    assert.match(fault?.description ?? '', /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/)
  }
})
