import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPublicKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type Authority, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import { readPem } from '../listener/pem.ts'
import { readRevocationList } from './revocation-list.ts'

function derOf(pem: string): Buffer {
  const blocks = readPem(pem)
  assert.ok(typeof blocks !== 'string' && blocks[0])
  return blocks[0].der
}

function keyOf({ certPem }: Pick<Authority, 'certPem'>) {
  return new X509Certificate(certPem).publicKey
}

describe('a revocation list', () => {
  it('gives serial numbers in the form of X509Certificate, and its times', async () => {
    const ca = await makeAuthority({ subject: 'CN=Root' })
    const revoked = await Promise.all([1, 2, 3].map(() => makeCertificate({ subject: 'CN=c', issuer: ca })))
    const list = readRevocationList(derOf(await makeRevocationList(ca, { revoked })))
    assert.deepEqual(
      [...list.serials],
      revoked.map(({ certPem }) => new X509Certificate(certPem).serialNumber),
    )
    assert.ok(list.thisUpdateMs < Date.now() && (list.nextUpdateMs ?? 0) > Date.now())
  })

  it('knows which authority signed it', async () => {
    for (const rsaBits of [undefined, 2048]) {
      const wish = { subject: 'CN=Root', ...(rsaBits && { rsaBits }) }
      const [ca, other] = await Promise.all([makeAuthority(wish), makeAuthority(wish)])
      const mixed = await makeAuthority({ subject: 'CN=Root', ...(!rsaBits && { rsaBits: 2048 }) })
      const list = readRevocationList(derOf(await makeRevocationList(ca)))
      assert.equal(list.isSignedBy(keyOf(ca)), true)
      assert.equal(list.isSignedBy(keyOf(other)), false)
      assert.equal(list.isSignedBy(keyOf(mixed)), false)
    }
  })

  it('made by openssl is read: serial numbers with the first bit set, no entries, Ed25519', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'crl-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const openssl = (args: string) => execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'pipe' })
    const config = '[ca]\ndefault_ca=d\n[d]\ndatabase=index\ndefault_md=sha256\ncrlnumber=number\n'
    writeFileSync(join(folder, 'ca.cnf'), config)
    writeFileSync(join(folder, 'number'), '01\n')
    for (const kind of ['ec -pkeyopt ec_paramgen_curve:P-384', 'ed25519', 'rsa:2048']) {
      writeFileSync(join(folder, 'index'), '')
      openssl(`req -x509 -newkey ${kind} -nodes -keyout key.pem -out ca.pem -subj /CN=Root -days 2`)
      const make = () => {
        openssl('ca -config ca.cnf -gencrl -keyfile key.pem -cert ca.pem -crldays 3 -out crl.pem')
        return readRevocationList(derOf(readFileSync(join(folder, 'crl.pem'), 'utf8')))
      }
      const key = createPublicKey(readFileSync(join(folder, 'ca.pem')))
      const empty = make()
      assert.deepEqual([...empty.serials], [])
      assert.equal(empty.isSignedBy(key), true, kind)
      const rows = ['FE01', '7F', '80', '00FF'].map(
        (number) => `R\t401231235959Z\t261101000000Z\t${number}\tunknown\t/CN=x\n`,
      )
      writeFileSync(join(folder, 'index'), rows.join(''))
      assert.deepEqual([...make().serials].sort(), ['7F', '80', 'FE01', 'FF'])
      assert.equal(make().isSignedBy(key), true, kind)
    }
  })

  it('with a changed byte, cut off or random is refused or not signed', async () => {
    const ca = await makeAuthority({ subject: 'CN=Root' })
    const der = derOf(await makeRevocationList(ca))
    const soundly = (bytes: Buffer) => {
      try {
        return readRevocationList(bytes).isSignedBy(keyOf(ca)) === true
      } catch {
        return false
      }
    }
    assert.ok(soundly(der))
    for (let length = 0; length < der.length; length++)
      assert.throws(() => readRevocationList(der.subarray(0, length)))
    // All but the algorithm's copy outside of what is signed, whose parameters nobody reads.
    const signed = 4 + (der[1] === 0x82 ? der.readUInt16BE(6) : (der[4] ?? 0))
    fc.assert(
      fc.property(fc.nat(signed - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const bytes = Buffer.from(der)
        bytes[at] = (bytes[at] ?? 0) ^ change
        assert.ok(!soundly(bytes))
      }),
    )
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => assert.ok(!soundly(Buffer.from(bytes)))),
    )
  })

  it('signed with an unsupported algorithm gives no verdict on its signature', async () => {
    const ca = await makeAuthority({ subject: 'CN=Root' })
    const der = derOf(await makeRevocationList(ca))
    // The OID of ecdsa-with-SHA256, once inside and once outside of what is signed: now ecdsa-with-SHA1.
    const hex = der.toString('hex').replaceAll('2a8648ce3d040302', '2a8648ce3d040301')
    assert.equal(readRevocationList(Buffer.from(hex, 'hex')).isSignedBy(keyOf(ca)), undefined)
  })
})
