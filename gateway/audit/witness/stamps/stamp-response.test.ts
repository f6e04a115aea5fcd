import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { hash, randomBytes, X509Certificate } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { makeStampAuthority, type StampAuthority } from './stamp-authority.test-support.ts'
import { stampRequest } from './stamp-request.ts'
import { checkStamp, type ExpectedStamp } from './stamp-response.ts'

const CHECKPOINT = Buffer.from('countersign/test\n1\nAAAA\n')
const digest = hash('sha256', CHECKPOINT, 'buffer')

describe('a time stamp', () => {
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

  it('is refused whatever single byte of it is changed, but for what is not of the stamp', () => {
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
    // Versions, the identifier of the signer beside its hash, the list of digests: nothing that says anything.
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
