import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { constants, hash, randomBytes, sign, X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Der, der, derInteger, derOid, readDer, TAG } from '../../../asn1/der.ts'
import { SHA_256 } from '../../../asn1/signature-algorithm.ts'
import { skipWithout } from '../../../e2e/other-programs.ts'
import { makeStampAuthority, type StampAuthority } from './stamp-authority.test-support.ts'
import { checkStamp, type ExpectedStamp } from './stamp-response.ts'
import { stampRequest } from './stamp-rounds.ts'

const CHECKPOINT = Buffer.from('countersign/test\n1\nAAAA\n')
const digest = hash('sha256', CHECKPOINT, 'buffer')

describe('a time stamp', { skip: skipWithout('openssl') }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'stamps '))
  const nonce = randomBytes(8)
  let authority: StampAuthority
  let response: Buffer
  let expected: ExpectedStamp

  before(async () => {
    authority = authorityIn('ec')
    response = await authority.respond(stampRequest(digest, nonce, undefined))
    expected = { hash: digest, nonce, authorities: [certificateIn(authority.caFile)] }
  })
  after(() => rmSync(folder, { recursive: true }))

  function authorityIn(name: string, kind?: string, days?: number): StampAuthority {
    mkdirSync(join(folder, name))
    return makeStampAuthority(join(folder, name), kind, days)
  }

  it('of the authority that openssl makes is accepted, with its time, and openssl accepts what was kept', () => {
    const { timeMs, policy, serial } = checkStamp(response, expected)
    assert.ok(Math.abs(timeMs - Date.now()) < 60_000)
    assert.equal(policy, '1.2.3.4.1')
    assert.equal(serial, '02')
    writeFileSync(join(folder, '1.tsr'), response)
    writeFileSync(join(folder, '1.checkpoint'), CHECKPOINT)
    const said = execFileSync(
      'openssl',
      ['ts', '-verify', '-data', '1.checkpoint', '-in', '1.tsr', '-CAfile', authority.caFile],
      { cwd: folder, encoding: 'utf8', stdio: 'pipe' },
    )
    assert.match(said, /Verification: OK/)
  })

  it('is accepted with RSA keys, and with the policy that was asked for', async () => {
    const rsa = authorityIn('rsa', 'RSA -pkeyopt rsa_keygen_bits:2048')
    const policy = '1.2.3.4.5'
    const reply = await rsa.respond(stampRequest(digest, nonce, policy))
    const authorities = [certificateIn(rsa.caFile)]
    assert.equal(checkStamp(reply, { ...expected, policy, authorities }).policy, policy)
    assert.throws(
      () => checkStamp(reply, { ...expected, policy: '1.2.3.4.6', authorities }),
      /has the policy 1.2.3.4.5/,
    )
    assert.throws(() => checkStamp(reply, expected), /no trusted authority/)
  })

  it('with RSASSA-PSS is accepted only where its parameters say how it was signed', async () => {
    const rsa = authorityIn('pss', 'RSA -pkeyopt rsa_keygen_bits:2048')
    const reply = await rsa.respond(stampRequest(digest, nonce, undefined))
    const key = readFileSync(join(folder, 'pss', 'tsa-key.pem'))
    const check = (pss: Buffer) =>
      checkStamp(signedAgain(reply, key, pss), { ...expected, authorities: [certificateIn(rsa.caFile)] })
    const sha256 = der(TAG.sequence, derOid(SHA_256))
    const sha384 = der(TAG.sequence, derOid('2.16.840.1.101.3.4.2.2'))
    const mask = (of: Buffer) => der(TAG.sequence, derOid('1.2.840.113549.1.1.8'), of)
    const parameters = (hashOf: Buffer, maskOf: Buffer, salt: number) =>
      der(
        TAG.sequence,
        der(0xa0, hashOf),
        der(0xa1, mask(maskOf)),
        der(0xa2, derInteger(Buffer.from([salt]))),
      )
    check(parameters(sha256, sha256, 32))
    assert.throws(() => check(parameters(sha256, sha256, 20)), /the signature of the time stamp is wrong/)
    assert.throws(() => check(parameters(sha384, sha384, 32)), /the signature of the time stamp is wrong/)
    assert.throws(() => check(parameters(sha256, sha384, 32)), /signed by RSASSA-PSS with parameters that/)
    assert.throws(() => check(der(TAG.sequence)), /RSASSA-PSS with SHA-1 is not accepted/)
  })

  it('is refused for another hash, another request, or when it is not granted', async () => {
    assert.throws(() => checkStamp(response, { ...expected, hash: randomBytes(32) }), /another hash/)
    assert.throws(() => checkStamp(response, { ...expected, nonce: randomBytes(8) }), /its nonce differs/)
    const refused = await authority.respond(stampRequest(digest, nonce, '1.9.9'))
    assert.throws(() => checkStamp(refused, expected), /grants no time stamp: rejection "Requested policy/)
  })

  it('is refused when the certificate that signed it had expired', async () => {
    const old = authorityIn('old', undefined, -1)
    const reply = await old.respond(stampRequest(digest, nonce, undefined))
    const authorities = [certificateIn(old.caFile)]
    assert.throws(
      () => checkStamp(reply, { ...expected, authorities }),
      /"CN=Stamps" is not valid at the time/,
    )
  })

  it('is refused whatever single byte is changed, except bytes that do not belong to the stamp', () => {
    let accepted = 0
    for (let at = 0; at < response.length; at++) {
      const changed = Buffer.from(response)
      changed[at] = (changed[at] as number) ^ 0x01
      try {
        const stamp = checkStamp(changed, expected)
        assert.deepEqual(stamp, checkStamp(response, expected))
        accepted++
      } catch (error) {
        assert.ok(error instanceof Error)
      }
    }
    // Changes of versions, of the list of digests and of the signer's identifier are accepted: a hash names the signer.
    assert.ok(accepted < 120, `${accepted} of ${response.length}`)
  })

  it('that is cut off, too long or no DER at all is refused with an error that says so', () => {
    for (let length = 0; length < response.length; length += 7) {
      assert.throws(() => checkStamp(response.subarray(0, length), expected), /DER/)
    }
    assert.throws(() => checkStamp(Buffer.concat([response, Buffer.of(0)]), expected), /DER/)
    assert.throws(() => checkStamp(Buffer.from('<html>'), expected), /DER/)
  })
})

function certificateIn(file: string): X509Certificate {
  return new X509Certificate(readFileSync(file))
}

/** Makes the last signature anew: RSASSA-PSS with SHA-256 and 32 bytes of salt, whatever `parameters` say. */
function signedAgain(response: Buffer, key: Buffer, parameters: Buffer): Buffer {
  const algorithm = der(TAG.sequence, derOid('1.2.840.113549.1.1.10'), parameters)
  const lastOf = (one: Der, change: (last: Der) => Buffer): Buffer => {
    const members = one.members()
    const before = members.slice(0, -1).map(({ bytes }) => bytes)
    return der(one.tag, ...before, change(members.at(-1) as Der))
  }
  const resign = (signerInfo: Der) => {
    const members = signerInfo.members()
    const attributes = members[3] as Der
    const data = Buffer.concat([Buffer.from([TAG.set]), attributes.bytes.subarray(1)])
    const padding = constants.RSA_PKCS1_PSS_PADDING
    const signature = sign('sha256', data, { key, padding, saltLength: 32 })
    const kept = members.slice(0, 4).map(({ bytes }) => bytes)
    return der(signerInfo.tag, ...kept, algorithm, der(TAG.octets, signature))
  }
  // Descends to the last SignerInfo: TimeStampResp, ContentInfo, its content, SignedData, the set of SignerInfos.
  const within =
    (depth: number) =>
    (one: Der): Buffer =>
      depth === 0 ? resign(one) : lastOf(one, within(depth - 1))
  return within(5)(readDer(response))
}
