import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { skipWithout } from '../../e2e/other-programs.ts'
import { derOf, isAccepted } from './lists.test-support.ts'
import { readRevocationList, UnusableList } from './revocation-list.ts'
import { trustedPath } from './trust.ts'

/** A self-signed authority in `ca.pem` and `key.pem` of its own folder, and lists that openssl signs by `sigopts`. */
function pssAuthority(key: string) {
  const folder = mkdtempSync(join(tmpdir(), 'crl-'))
  const openssl = (args: string) => execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'pipe' })
  writeFileSync(join(folder, 'ca.cnf'), '[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=number\n')
  writeFileSync(join(folder, 'number'), '01\n')
  writeFileSync(join(folder, 'index'), '')
  const pss = '-sigopt rsa_padding_mode:pss'
  openssl(`req -x509 -newkey ${key} -nodes -keyout key.pem -out ca.pem -subj /CN=Root -days 2 ${pss}`)
  const list = (hash: string, sigopts: string) => {
    const args = `-gencrl -keyfile key.pem -cert ca.pem -crldays 3 -out crl.pem -md ${hash} ${pss} ${sigopts}`
    openssl(`ca -config ca.cnf ${args}`.trim())
    return readFileSync(join(folder, 'crl.pem'), 'utf8')
  }
  const certPem = () => readFileSync(join(folder, 'ca.pem'), 'utf8')
  return { folder, openssl, pss, list, certPem, publicKey: () => new X509Certificate(certPem()).publicKey }
}

describe('a revocation list that openssl has signed with RSASSA-PSS', {
  skip: skipWithout('openssl'),
}, () => {
  const kinds = ['rsa:2048', 'rsa-pss -pkeyopt rsa_keygen_bits:2048']
  const pairs = kinds.map((key) => [pssAuthority(key), pssAuthority(key)] as const)
  const [[ca]] = pairs as [(typeof pairs)[0]]
  after(() => {
    for (const { folder } of pairs.flat()) rmSync(folder, { recursive: true, force: true })
  })

  it('is verified with SHA-2 and several salt lengths, also by a key for PSS alone', () => {
    for (const [index, [ca, other]] of pairs.entries()) {
      const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey
      for (const hash of ['sha256', 'sha384', 'sha512']) {
        for (const salt of ['digest', 'max', '0', '20']) {
          const bytes = derOf(ca.list(hash, `-sigopt rsa_pss_saltlen:${salt}`))
          const { checkSignature } = readRevocationList(bytes)
          assert.equal(checkSignature(ca.publicKey()), 'good', `${kinds[index]} ${hash} ${salt}`)
          assert.equal(checkSignature(other.publicKey()), 'bad')
          assert.equal(checkSignature(ec), 'bad')
          const changed = Buffer.from(bytes)
          const at = bytes.length - 1
          changed[at] = (changed[at] ?? 0) ^ 1
          assert.equal(readRevocationList(changed).checkSignature(ca.publicKey()), 'bad')
        }
      }
    }
  })

  it('gives no verdict where its hash is SHA-1, as with other algorithms of SHA-1', () => {
    const list = readRevocationList(derOf(ca.list('sha1', '-sigopt rsa_pss_saltlen:20')))
    assert.equal(list.checkSignature(ca.publicKey()), 'unknown algorithm')
  })

  it('is refused where its parameters are odd, and the reason is named', () => {
    const because = (reason: string) =>
      new UnusableList(`is signed by RSASSA-PSS with parameters that are not supported: ${reason}`)
    for (const [hash, mask] of [
      ['sha256', 'sha384'],
      ['sha512', 'sha1'],
    ] as const) {
      const odd = derOf(ca.list(hash, `-sigopt rsa_mgf1_md:${mask} -sigopt rsa_pss_saltlen:32`))
      const reason = `the hash is ${hash}, but that of the mask is ${mask}`
      assert.throws(() => readRevocationList(odd), because(reason))
    }
    const short = derOf(ca.list('sha224', ''))
    const reason = 'the hash 2.16.840.1.101.3.4.2.4 is not known'
    assert.throws(() => readRevocationList(short), because(reason))
    // The parameters are not those of the signature.
    const bytes = derOf(ca.list('sha256', '-sigopt rsa_pss_saltlen:32'))
    bytes[bytes.lastIndexOf(Buffer.from('a203020120', 'hex')) + 4] = 31
    assert.equal(readRevocationList(bytes).checkSignature(ca.publicKey()), 'bad')
  })

  it('counts in the handshakes of clients whose certificates are signed by RSASSA-PSS too', async () => {
    ca.openssl(
      `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout client.key -subj /CN=client -CA ca.pem -CAkey key.pem -set_serial 77 -days 2 -out client.pem -sha256 ${ca.pss}`,
    )
    const cert = readFileSync(join(ca.folder, 'client.pem'), 'utf8')
    const key = readFileSync(join(ca.folder, 'client.key'), 'utf8')
    const good = ca.list('sha256', '-sigopt rsa_pss_saltlen:digest')
    writeFileSync(join(ca.folder, 'index'), 'R\t401231235959Z\t261101000000Z\t4D\tunknown\t/CN=client\n')
    const revoking = ca.list('sha256', '-sigopt rsa_pss_saltlen:digest')
    for (const [crl, authorized] of [
      [good, true],
      [revoking, false],
    ] as const) {
      const list = readRevocationList(derOf(crl))
      const leaf = new X509Certificate(cert)
      const authority = new X509Certificate(ca.certPem())
      const path = trustedPath(
        { leaf, intermediates: [] },
        { authorities: [authority], lists: [list] },
        Date.now(),
      )
      assert.equal(typeof path !== 'string', authorized)
      assert.equal(await isAccepted({ cert, key }, { ca: ca.certPem(), crl }), authorized)
    }
  })
})
