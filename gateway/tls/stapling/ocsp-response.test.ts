import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { skipWithout } from '../../e2e/other-programs.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { OcspAuthority } from './ocsp-authority.test-support.ts'
import { checkOcspResponse, Revoked } from './ocsp-response.ts'

const MINUTE_MS = 60_000

describe('an OCSP response', { skip: skipWithout('openssl') }, () => {
  const folder = temporaryDirectory({ after })
  const authorityIn = (name: string, kind?: string) => {
    mkdirSync(join(folder, name))
    return new OcspAuthority(join(folder, name), kind)
  }
  const authority = authorityIn('ec')
  const certificate = authority.certificate()
  const rsa = authorityIn('rsa', 'RSA -pkeyopt rsa_keygen_bits:2048')
  const good = authority.respond()
  const check = (response: Buffer, nowMs = Date.now()) => checkOcspResponse(response, certificate, nowMs)

  it('of openssl is accepted with its times, for either hash, and with RSA', () => {
    const { thisUpdateMs, nextUpdateMs } = check(good)
    assert.ok(Math.abs(thisUpdateMs - Date.now()) < 10 * MINUTE_MS)
    assert.equal(nextUpdateMs - thisUpdateMs, 60 * MINUTE_MS)
    check(authority.respond({ more: '-sha256' }))
    checkOcspResponse(rsa.respond(), rsa.certificate(), Date.now())
  })

  it('says if the certificate was revoked or is not known', () => {
    assert.throws(() => check(authority.respond({ status: 'revoked' })), Revoked)
    assert.throws(() => check(authority.respond({ status: 'unknown' })), /does not know the certificate/)
  })

  it('is refused when it has expired, comes from the future or has no end', () => {
    assert.throws(() => check(good, Date.now() + 61 * MINUTE_MS), /expired at/)
    assert.throws(() => check(good, Date.now() - 20 * MINUTE_MS), /is not valid before/)
    assert.throws(() => check(authority.respond({ minutes: 0 })), /does not say until when/)
  })

  it('is refused for another certificate of the authority, and for the same number of another authority', () => {
    authority.issue('another', 11)
    assert.throws(() => check(authority.respond({ name: 'another' })), /another certificate/)
    assert.throws(() => check(authorityIn('foreign').respond()), /another certificate/)
  })

  it('is accepted from a delegate of the issuer, and from nobody else', () => {
    authority.issue('delegate', 12, { section: 'delegate' })
    check(authority.respond({ signer: 'delegate' }))
    authority.issue('stranger', 13, { section: 'other' })
    assert.throws(() => check(authority.respond({ signer: 'stranger' })), /nor by a responder of that issuer/)
    // Signed by another authority of the same name.
    authorityIn('forger').issue('forged', 12, { section: 'delegate' })
    for (const file of ['forged.pem', 'forged-key.pem'])
      copyFileSync(join(folder, 'forger', file), join(folder, 'ec', file))
    assert.throws(() => check(authority.respond({ signer: 'forged' })), /nor by a responder of that issuer/)
  })

  it('without a verdict is refused with what the authority says', () => {
    // OCSPResponse with the status tryLater.
    assert.throws(() => check(Buffer.from('30030a0103', 'hex')), /the authority answers tryLater/)
    assert.throws(() => check(Buffer.from('30030a0109', 'hex')), /with the status 9/)
  })

  it('is refused whatever bit of what is signed is changed, and when it is cut off, too long or nothing', () => {
    // After `end` comes only a certificate that is not needed here.
    const end = good.indexOf(certificate.issuer.raw)
    assert.ok(end > 200)
    for (let at = 0; at < end; at++) {
      const changed = Buffer.from(good)
      changed[at] = (changed[at] as number) ^ 0x01
      assert.throws(() => check(changed), `byte ${at}`)
    }
    for (let length = 0; length < good.length; length++) assert.throws(() => check(good.subarray(0, length)))
    assert.throws(() => check(Buffer.alloc(70_000, 0x30)), /is longer than 65536 bytes/)
  })

  const pssBy = (hash: string, words: string) =>
    `-rmd ${hash} -rsigopt rsa_padding_mode:pss ${words.replaceAll('rsa_', '-rsigopt rsa_')}`

  it('is accepted with RSASSA-PSS of SHA-2 and any salt length, also by a key for PSS alone', () => {
    for (const signer of [rsa, authorityIn('rsa-pss', 'RSA-PSS -pkeyopt rsa_keygen_bits:2048')]) {
      const { leaf, issuer } = signer.certificate()
      for (const hash of ['sha256', 'sha384', 'sha512']) {
        for (const salt of ['digest', 'max', '0', '20']) {
          const response = signer.respond({ signing: pssBy(hash, `rsa_pss_saltlen:${salt}`) })
          checkOcspResponse(response, { leaf, issuer }, Date.now())
          // This byte is in the signature, which stands before the certificate.
          const at = response.indexOf(issuer.raw) - 20
          response[at] = (response[at] as number) ^ 1
          assert.throws(
            () => checkOcspResponse(response, { leaf, issuer }, Date.now()),
            /neither by the issuer/,
          )
        }
      }
    }
  })

  it('is refused with RSASSA-PSS where its parameters are odd or its hash is SHA-1, and the reason is named', () => {
    const odd = 'it is signed by RSASSA-PSS with parameters that are not supported'
    const cases: [hash: string, words: string, message: string][] = [
      ['sha256', 'rsa_mgf1_md:sha384', `${odd}: the hash is sha256, but that of the mask is sha384`],
      ['sha512', 'rsa_mgf1_md:sha1', `${odd}: the hash is sha512, but that of the mask is sha1`],
      ['sha224', '', `${odd}: the hash 2.16.840.1.101.3.4.2.4 is not known`],
      ['sha1', '', 'the signature algorithm RSASSA-PSS with SHA-1 is not accepted'],
    ]
    for (const [hash, words, message] of cases) {
      const response = rsa.respond({ signing: pssBy(hash, words) })
      assert.throws(() => checkOcspResponse(response, rsa.certificate(), Date.now()), { message })
    }
    // The parameters say that the salt has 31 bytes, but it has 32.
    const response = rsa.respond({ signing: pssBy('sha256', 'rsa_pss_saltlen:32') })
    const at = response.lastIndexOf(Buffer.from('a203020120', 'hex')) + 4
    response[at] = 31
    assert.throws(() => checkOcspResponse(response, rsa.certificate(), Date.now()), /neither by the issuer/)
  })
})
