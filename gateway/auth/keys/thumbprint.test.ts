import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { signingKey } from '../tokens/issuer.test-support.ts'
import { isThumbprint, jwkThumbprint, sha256 } from './thumbprint.ts'

test('the thumbprint of RFC 7638 section 3.1 comes out, whatever other members the key has', () => {
  const jwk = {
    kty: 'RSA',
    n: '0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw',
    e: 'AQAB',
    alg: 'RS256',
    kid: '2011-04-29',
  }
  assert.equal(jwkThumbprint(jwk), 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs')
})

test('the thumbprint of RFC 8037 appendix A.3 comes out', () => {
  const jwk = { crv: 'Ed25519', kty: 'OKP', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
  assert.equal(jwkThumbprint(jwk), 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k')
})

test('the thumbprint of RFC 9449 section 6.1 comes out', () => {
  const jwk = {
    kty: 'EC',
    x: 'l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs',
    y: '9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA',
    crv: 'P-256',
  }
  assert.equal(jwkThumbprint(jwk), '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I')
})

test('jose comes to the same thumbprints', async () => {
  for (const alg of ['ES256', 'PS256', 'EdDSA'] as const) {
    const { jwk } = signingKey(alg)
    assert.equal(jwkThumbprint(jwk), await calculateJwkThumbprint(jwk as JWK))
  }
})

test('a key of another kind, or without a member of its kind, has none', () => {
  for (const jwk of [
    {},
    { kty: 'oct', k: 'AAAA' },
    { kty: 'EC', crv: 'P-256', x: 'x' },
    { kty: 'EC', crv: 'P-256', x: 'x', y: 1 },
    { kty: 'RSA', n: ['n'], e: 'AQAB' },
    { kty: 'toString', x: 'x' },
  ]) {
    assert.equal(jwkThumbprint(jwk), undefined)
  }
})

test('a hash is SHA-256 in base64url, as cnf names a certificate by its DER', () => {
  assert.equal(sha256(Buffer.from('abc')), 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0')
})

test('every hash is a thumbprint, and no other spelling of it is', () => {
  fc.assert(fc.property(fc.string(), (text) => isThumbprint(sha256(text))))
  const one = randomBytes(32).toString('base64url')
  for (const other of [
    `${one}=`,
    one.slice(1),
    `${one}A`,
    `${one.slice(0, 42)}B`,
    `${one}\n`,
    `+${one.slice(1)}`,
    1,
  ]) {
    assert.equal(isThumbprint(other), false)
  }
})
