import assert from 'node:assert/strict'
import { constants, createHash, type KeyObject, sign } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { CompactSign } from 'jose'
import { encode, isSignedBy, signingKey } from '../tokens/issuer.test-support.ts'
import type { Algorithm } from './signature.ts'
import { readKey } from './verification-key.ts'

/* These tests try what public collections of forged signatures try. */

const ALGORITHMS = ['ES256', 'PS256', 'RS256', 'EdDSA'] as const

function publicKeyOf(alg: Algorithm): KeyObject {
  return readKey(signingKey(alg).jwk).key!.key
}

function textOf(alg: string): string {
  return `${encode(JSON.stringify({ alg }))}.${encode('{"a":1}')}`
}

function assertVerdict(alg: Algorithm, signature: Buffer, good: boolean): void {
  const jws = `${textOf(alg)}.${signature.toString('base64url')}`
  assert.equal(isSignedBy(publicKeyOf(alg), alg, jws), good)
}

const key = (alg: Algorithm) => signingKey(alg).privateKey
const es256 = () =>
  sign('sha256', Buffer.from(textOf('ES256')), { key: key('ES256'), dsaEncoding: 'ieee-p1363' })

for (const alg of ALGORITHMS) {
  test(`what jose signs with ${alg} is good under its own key only`, async () => {
    const jws = await new CompactSign(Buffer.from('{}')).setProtectedHeader({ alg }).sign(key(alg))
    assert.equal(isSignedBy(publicKeyOf(alg), alg, jws), true)
    for (const other of ALGORITHMS) {
      if (other === alg) continue
      assert.equal(isSignedBy(publicKeyOf(other), other, jws), false)
      const isSameKey = publicKeyOf(other).equals(publicKeyOf(alg))
      assert.equal(isSignedBy(publicKeyOf(other), alg, jws), isSameKey)
    }
  })

  test(`a signature by ${alg} that is empty, cut short, made longer or all zero is bad`, async () => {
    const jws = await new CompactSign(Buffer.from('{"a":1}')).setProtectedHeader({ alg }).sign(key(alg))
    const good = Buffer.from(jws.slice(jws.lastIndexOf('.') + 1), 'base64url')
    assertVerdict(alg, good, true)
    for (const bad of [
      good.subarray(0, -1),
      good.subarray(1),
      good.subarray(0, good.length / 2),
      Buffer.concat([good, Buffer.alloc(1)]),
      Buffer.concat([Buffer.alloc(1), good]),
      Buffer.alloc(good.length),
      Buffer.alloc(good.length, 255),
    ]) {
      assertVerdict(alg, bad, false)
    }
    const empty = `${textOf(alg)}.`
    assert.equal(isSignedBy(publicKeyOf(alg), alg, empty), false)
  })
}

test('an ES256 signature in DER, with its halves exchanged, or with a half of zero, one or the order is bad', () => {
  const good = es256()
  const [r, s] = [good.subarray(0, 32), good.subarray(32)]
  const zero = Buffer.alloc(32)
  const one = Buffer.from(`${'00'.repeat(31)}01`, 'hex')
  const order = Buffer.from('ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex')
  assertVerdict('ES256', good, true)
  for (const bad of [
    sign('sha256', Buffer.from(textOf('ES256')), { key: key('ES256'), dsaEncoding: 'der' }),
    Buffer.concat([s, r]),
    ...[zero, one, order].flatMap((half) => [
      Buffer.concat([half, s]),
      Buffer.concat([r, half]),
      Buffer.concat([half, half]),
      Buffer.concat([zero, half]),
    ]),
    Buffer.concat([zero, r, zero, s]),
  ]) {
    assertVerdict('ES256', bad, false)
  }
})

test('an EdDSA signature whose second half is the same number plus the order of the group is bad', () => {
  const good = sign(null, Buffer.from(textOf('EdDSA')), key('EdDSA'))
  const order = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n
  const half = BigInt(`0x${Buffer.from(good.subarray(32)).reverse().toString('hex')}`)
  const shifted = Buffer.from((half + order).toString(16).padStart(64, '0'), 'hex').reverse()
  assertVerdict('EdDSA', good, true)
  assertVerdict('EdDSA', Buffer.concat([good.subarray(0, 32), shifted]), false)
})

test('a PS256 signature with another padding, salt length or hash is bad', () => {
  const text = Buffer.from(textOf('PS256'))
  const pss = (saltLength: number, hash = 'sha256') =>
    sign(hash, text, { key: key('PS256'), padding: constants.RSA_PKCS1_PSS_PADDING, saltLength })
  assertVerdict('PS256', pss(32), true)
  for (const bad of [
    pss(0),
    pss(20),
    pss(33),
    pss(32, 'sha1'),
    pss(32, 'sha384'),
    sign('sha256', text, key('PS256')),
  ]) {
    assertVerdict('PS256', bad, false)
  }
})

test('a signature over the hash of the text, or over a part of it, is bad', () => {
  const text = textOf('ES256')
  for (const other of [
    createHash('sha256').update(text).digest(),
    text.split('.')[0] ?? '',
    `${text}.`,
    '',
  ]) {
    const signature = sign('sha256', Buffer.from(other), { key: key('ES256'), dsaEncoding: 'ieee-p1363' })
    assertVerdict('ES256', signature, false)
  }
})

test('any single changed bit makes an ES256 signature bad', () => {
  const good = es256()
  fc.assert(
    fc.property(fc.nat(good.length * 8 - 1), (bit) => {
      const bad = Buffer.from(good)
      bad[bit >> 3]! ^= 1 << (bit & 7)
      assertVerdict('ES256', bad, false)
    }),
    { numRuns: 40 },
  )
})
