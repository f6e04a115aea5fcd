import assert from 'node:assert/strict'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import type { JWK } from 'jose'
import { makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import { encode, freshKey, publicJwk, signingKey } from '../tokens/issuer.test-support.ts'
import { isSameKey, readKey } from './verification-key.ts'

const { privateKey: weakRsa } = generateKeyPairSync('rsa', { modulusLength: 1024 })
const { privateKey: almostRsa } = generateKeyPairSync('rsa', { modulusLength: 2047 })
const { privateKey: exponent3 } = generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 })
const { privateKey: p384 } = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const { privateKey: ed448 } = generateKeyPairSync('ed448')

const rsa = signingKey('RS256').jwk
const ec = signingKey('ES256').jwk
const ed = signingKey('EdDSA').jwk

function without(jwk: JWK, ...names: string[]): JWK {
  return Object.fromEntries(Object.entries(jwk).filter(([name]) => !names.includes(name)))
}

/** 2048 bits whose remainder by every small prime is that of 65537 to the power of 5, as with ROCA's moduli. */
function rocaModulus(): string {
  let primes = 2n
  for (let candidate = 3n; candidate <= 167n; candidate += 2n) {
    if (!smallFactor(candidate)) primes *= candidate
  }
  const start = 1n << 2047n
  return encode(Buffer.from((start - (start % primes) + primes + 65_537n ** 5n).toString(16), 'hex'))
}

function smallFactor(candidate: bigint): boolean {
  return [3n, 5n, 7n, 11n].some((factor) => candidate !== factor && candidate % factor === 0n)
}

for (const [what, jwk, algorithms] of [
  ['an EC key with alg ES256', ec, ['ES256']],
  ['an EC key without alg', without(ec, 'alg'), ['ES256']],
  ['an Ed25519 key with alg EdDSA', ed, ['EdDSA']],
  ['an Ed25519 key with alg Ed25519', { ...ed, alg: 'Ed25519' }, ['EdDSA']],
  ['an Ed25519 key without alg', without(ed, 'alg'), ['EdDSA']],
  ['an RSA key with alg RS256', rsa, ['RS256']],
  ['an RSA key with alg PS256', { ...rsa, alg: 'PS256' }, ['PS256']],
  ['an RSA key without alg', without(rsa, 'alg'), ['PS256', 'RS256', 'PS512']],
  ['a key without use', without(ec, 'use'), ['ES256']],
  ['a key whose key_ops include verify', { ...ec, key_ops: ['verify'] }, ['ES256']],
] as const) {
  test(`${what} is pinned to ${algorithms.join(' or ')}`, () => {
    const { key, fault } = readKey(jwk)
    assert.equal(fault, undefined)
    assert.deepEqual(key?.algorithms, algorithms)
    assert.equal(key?.kid, jwk.kid)
    assert.equal(key?.key.type, 'public')
  })
}

const modulus16Ki = encode(Buffer.alloc(2048, 0xff))

for (const [what, jwk, fault] of [
  ['a string', 'key', /not a JSON object/],
  ['null', null, /not a JSON object/],
  ['a list', [ec], /not a JSON object/],
  ['a key whose kid is a number', { ...ec, kid: 7 }, /has no kid/],
  ['a key whose kid is empty', { ...ec, kid: '' }, /has no kid/],
  ['a key whose kid is very long', { ...ec, kid: 'k'.repeat(257) }, /more than 256 characters/],
  ['a symmetric key', { kty: 'oct', kid: 'a', alg: 'HS256' }, /kty "oct"/],
  ['a symmetric key with its secret', { kty: 'oct', kid: 'a', k: 'c2VjcmV0' }, /private member "k"/],
  ['a P-384 key', publicJwk(p384, { kid: 'a' }), /crv "P-384"/],
  ['an Ed448 key', publicJwk(ed448, { kid: 'a' }), /crv "Ed448"/],
  ['an EC key of alg ES384', { ...ec, alg: 'ES384' }, /alg "ES384"/],
  ['an EC key of alg RS256', { ...ec, alg: 'RS256' }, /alg "RS256"/],
  ['an RSA key of alg RS512', { ...rsa, alg: 'RS512' }, /alg "RS512"/],
  ['an RSA key of alg HS256', { ...rsa, alg: 'HS256' }, /alg "HS256"/],
  ['an RSA key of alg none', { ...rsa, alg: 'none' }, /alg "none"/],
  ['an Ed25519 key of alg Ed448', { ...ed, alg: 'Ed448' }, /alg "Ed448"/],
  ['an Ed448 key', { ...ed, crv: 'Ed448', alg: 'Ed448' }, /crv "Ed448"/],
  ['an Ed25519 key of alg ES256', { ...ed, alg: 'ES256' }, /alg "ES256"/],
  ['a key for encryption', { ...ec, use: 'enc' }, /not for signatures/],
  ['a key that only signs', { ...ec, key_ops: ['sign'] }, /not for verifying/],
  ['a key whose key_ops is no list', { ...ec, key_ops: 'verify' }, /not for verifying/],
  ['an RSA key of 1024 bits', publicJwk(weakRsa, { kid: 'a' }), /modulus of 1024 bits/],
  ['an RSA key of 2047 bits', publicJwk(almostRsa, { kid: 'a' }), /modulus of 2047 bits/],
  ['an RSA key of 16384 bits', { ...rsa, n: modulus16Ki }, /modulus of 16384 bits/],
  ['an RSA key with exponent 3', publicJwk(exponent3, { kid: 'a' }), /public exponent 3,/],
  [
    'an RSA key with an even exponent',
    { ...rsa, e: encode(Buffer.from([1, 0, 2])) },
    /public exponent 65538,/,
  ],
  [
    'an RSA key with a long exponent',
    { ...rsa, e: encode(Buffer.alloc(9, 1)) },
    /public exponent of more than 64 bits/,
  ],
  ['an RSA key of the flawed generator of ROCA', { ...rsa, n: rocaModulus() }, /CVE-2017-15361/],
  ['an RSA key without a modulus', without(rsa, 'n'), /no base64url member "n"/],
  ['a key with padded base64url', { ...ec, x: `${ec.x}=` }, /no base64url member "x"/],
  ['an EC key with a short coordinate', { ...ec, y: encode('short') }, /"y" that is not 32 bytes/],
  [
    'an Ed25519 key with a long coordinate',
    { ...ed, x: encode(Buffer.alloc(33)) },
    /"x" that is not 32 bytes/,
  ],
  ['a point off the curve', { ...ec, x: encode(Buffer.alloc(32, 1)) }, /does not import/],
] as const) {
  test(`${what} is refused`, () => {
    const reading = readKey(jwk)
    assert.equal(reading.key, undefined)
    assert.match(reading.fault ?? '', fault)
  })
}

test('each private member that JWK knows makes a key refused', () => {
  for (const name of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']) {
    const { key, fault } = readKey({ ...rsa, [name]: 'AQAB' })
    assert.equal(key, undefined)
    assert.equal(fault, `publishes the private member "${name}"`)
  }
})

test('keys are the same when name, material and algorithms are', () => {
  const read = (jwk: JWK) => readKey(jwk).key!
  assert.ok(isSameKey(read(ec), read({ ...ec, ext: true })))
  assert.ok(!isSameKey(read(ec), read({ ...ec, kid: 'other' })))
  assert.ok(!isSameKey(read(ec), read(freshKey('ES256').jwk)))
  assert.ok(!isSameKey(read(rsa), read({ ...rsa, alg: 'PS256' })))
})

test('a key has the first certificate of x5c if that is for this key; with another certificate it is another key', async () => {
  const one = await makeAuthority({ subject: 'CN=one' })
  const renewed = await makeAuthority({ subject: 'CN=one', keys: one.keys })
  const other = await makeAuthority({ subject: 'CN=other' })
  const read = (...x5c: readonly string[]) =>
    readKey(publicJwk(createPrivateKey(one.keyPem), { kid: 'one', x5c })).key!
  const [oneDer = '', renewedDer = '', otherDer = ''] = [one, renewed, other].map(({ certPem }) =>
    new X509Certificate(certPem).raw.toString('base64'),
  )
  assert.equal(read(oneDer, otherDer).certificate?.raw.toString('base64'), oneDer)
  for (const x5c of [[otherDer, oneDer], ['AA=='], ['x'], []])
    assert.equal(read(...x5c).certificate, undefined)
  assert.ok(isSameKey(read(oneDer), read(oneDer)))
  assert.ok(!isSameKey(read(oneDer), read(renewedDer)))
})
