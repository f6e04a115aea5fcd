import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPublicKey, X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { skipWithout } from '../../e2e/other-programs.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { type Authority, makeAuthority, makeCertificate, makeRevocationList } from '../demo/throw-away-ca.ts'
import { derOf, isAccepted } from './lists.test-support.ts'
import { readRevocationList, UnusableList } from './revocation-list.ts'

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
      assert.equal(list.checkSignature(keyOf(ca)), 'good')
      assert.equal(list.checkSignature(keyOf(other)), 'bad')
      assert.equal(list.checkSignature(keyOf(mixed)), 'bad')
    }
  })

  it('made by openssl is read: serial numbers with the first bit set, no entries, Ed25519', {
    skip: skipWithout('openssl'),
  }, (t) => {
    const folder = temporaryDirectory(t)
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
      assert.equal(empty.checkSignature(key), 'good', kind)
      const rows = ['FE01', '7F', '80', '00FF'].map(
        (number) => `R\t401231235959Z\t261101000000Z\t${number}\tunknown\t/CN=x\n`,
      )
      writeFileSync(join(folder, 'index'), rows.join(''))
      assert.deepEqual([...make().serials].sort(), ['7F', '80', 'FE01', 'FF'])
      assert.equal(make().checkSignature(key), 'good', kind)
    }
  })

  it('with a changed byte, cut off or random is refused or not signed', async () => {
    const ca = await makeAuthority({ subject: 'CN=Root' })
    const der = derOf(await makeRevocationList(ca))
    const soundly = (bytes: Buffer) => {
      try {
        return readRevocationList(bytes).checkSignature(keyOf(ca)) === 'good'
      } catch {
        return false
      }
    }
    assert.ok(soundly(der))
    for (let length = 0; length < der.length; length++)
      assert.throws(() => readRevocationList(der.subarray(0, length)))
    // The unsigned copy of the algorithm is left out, because nobody reads its parameters.
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
    // The OID of ecdsa-with-SHA256 occurs inside and outside the signed part. It becomes ecdsa-with-SHA224.
    const hex = der.toString('hex').replaceAll('2a8648ce3d040302', '2a8648ce3d040301')
    assert.equal(readRevocationList(Buffer.from(hex, 'hex')).checkSignature(keyOf(ca)), 'unknown algorithm')
  })
})

/** DER of less than 128 bytes: a value of this tag around hex or other values. */
function der(tag: number, ...content: readonly (string | Buffer)[]): Buffer {
  const bytes = Buffer.concat(
    content.map((part) => (typeof part === 'string' ? Buffer.from(part, 'hex') : part)),
  )
  assert.ok(bytes.length < 128)
  return Buffer.concat([Buffer.from([tag, bytes.length]), bytes])
}

function utcTime(text: string): Buffer {
  return der(0x17, Buffer.from(text, 'latin1'))
}

function extension(oid: string, critical: boolean, value: string | Buffer = '0500'): Buffer {
  return der(0x30, der(0x06, oid), ...(critical ? [der(0x01, 'ff')] : []), der(0x04, value))
}

interface Wish {
  readonly times?: readonly Buffer[]
  readonly entries?: readonly Buffer[]
  readonly extensions?: readonly Buffer[]
}

/** A list whose issuer and signature are empty. */
function unsignedList({ times = [utcTime('260101000000Z')], entries = [], extensions = [] }: Wish): Buffer {
  const fields = [der(0x02, '01'), der(0x30, der(0x06, '2a03')), der(0x30), ...times]
  if (entries.length > 0) fields.push(der(0x30, ...entries))
  if (extensions.length > 0) fields.push(der(0xa0, der(0x30, ...extensions)))
  return der(0x30, der(0x30, ...fields), der(0x30, der(0x06, '2a03')), der(0x03, '00'))
}

function entry(...extensions: readonly Buffer[]): Buffer {
  const more = extensions.length > 0 ? [der(0x30, ...extensions)] : []
  return der(0x30, der(0x02, '00ff'), utcTime('260101000000Z'), ...more)
}

const OIDS = {
  deltaIndicator: '551d1b',
  issuingDistributionPoint: '551d1c',
  crlNumber: '551d14',
  keyIdentifier: '551d23',
}

describe('a revocation list with extensions', { skip: skipWithout('openssl') }, () => {
  const reading = (wish: Wish) => () => readRevocationList(unsignedList(wish))

  it('is read when they only tell more about it or its entries', () => {
    const list = readRevocationList(
      unsignedList({
        entries: [entry(extension('551d15', false))],
        extensions: [
          extension(OIDS.crlNumber, false),
          extension('2a0304', false),
          extension(OIDS.keyIdentifier, true),
        ],
      }),
    )
    assert.deepEqual([...list.serials], ['FF'])
    assert.equal(list.thisUpdateMs, Date.UTC(2026, 0, 1))
  })

  it('is refused when it is no complete list, or of a scope that is not supported, critical or not', () => {
    for (const critical of [true, false]) {
      assert.throws(
        reading({ extensions: [extension(OIDS.deltaIndicator, critical)] }),
        new UnusableList('is a delta list: complete lists are needed'),
      )
      for (const scope of ['830100', '8401ff', '8501ff', '8101ff8201ff', 'a000', 'a002a100'])
        assert.throws(
          reading({ extensions: [extension(OIDS.issuingDistributionPoint, critical, der(0x30, scope))] }),
          new UnusableList('has an issuing distribution point of a kind that is not supported'),
        )
    }
  })

  it('is refused with the name of a critical extension that nobody knows', () => {
    assert.throws(
      reading({ extensions: [extension(OIDS.crlNumber, false), extension('2a864886f70d01097f', true)] }),
      new UnusableList('has a critical extension that is not known: 1.2.840.113549.1.9.127'),
    )
    assert.throws(reading({ extensions: [extension(OIDS.crlNumber, true)] }), UnusableList)
    // Certificate issuer, as in an indirect list.
    assert.throws(
      reading({ entries: [entry(), entry(extension('551d1d', true))] }),
      new UnusableList('has an entry with a critical extension that is not known: 2.5.29.29'),
    )
  })
})

/** Extensions of a list, in the syntax of openssl.cnf(5). A list is signed with those of one section. */
const SECTIONS = `
[plain]
1.2.3.4=ASN1:NULL
[delta]
2.5.29.27=critical,ASN1:INTEGER:1
[unknown]
1.2.3.4=critical,ASN1:NULL
`

it('a list is refused exactly when OpenSSL would refuse every client in its handshake', {
  skip: skipWithout('openssl'),
}, async (t) => {
  const folder = temporaryDirectory(t)
  const ca = await makeAuthority({ subject: 'CN=Root' })
  const client = await makeCertificate({ subject: 'CN=client', issuer: ca })
  writeFileSync(join(folder, 'ca.pem'), ca.certPem)
  writeFileSync(join(folder, 'key.pem'), ca.keyPem)
  writeFileSync(join(folder, 'index'), '')
  writeFileSync(join(folder, 'number'), '01\n')
  const config = `[ca]\ndefault_ca=d\n[d]\ndatabase=index\ndefault_md=sha256\ncrlnumber=number\n${SECTIONS}`
  writeFileSync(join(folder, 'ca.cnf'), config)
  for (const [section, good] of Object.entries({
    plain: true,
    delta: false,
    unknown: false,
  })) {
    const args = `ca -config ca.cnf -gencrl -keyfile key.pem -cert ca.pem -crldays 3 -out crl.pem -crlexts ${section}`
    execFileSync('openssl', args.split(' '), { cwd: folder, stdio: 'pipe' })
    const crl = readFileSync(join(folder, 'crl.pem'), 'utf8')
    if (good) readRevocationList(derOf(crl))
    else assert.throws(() => readRevocationList(derOf(crl)), UnusableList, section)
    const identity = { cert: client.certPem, key: client.keyPem }
    assert.equal(await isAccepted(identity, { ca: ca.certPem, crl }), good, section)
  }
})

describe('the times of a revocation list', () => {
  const thisUpdate = (time: Buffer) => readRevocationList(unsignedList({ times: [time] })).thisUpdateMs
  const generalizedTime = (text: string) => der(0x18, Buffer.from(text, 'latin1'))

  it('are those of its DER', () => {
    for (const [time, expected] of [
      [utcTime('491231235959Z'), '2049-12-31T23:59:59.000Z'],
      [utcTime('500101000000Z'), '1950-01-01T00:00:00.000Z'],
      [utcTime('240229120000Z'), '2024-02-29T12:00:00.000Z'],
      [generalizedTime('20500101000000Z'), '2050-01-01T00:00:00.000Z'],
    ] as const)
      assert.equal(new Date(thisUpdate(time)).toISOString(), expected)
  })

  it('are refused when there is no such day or time of day, in an entry too', () => {
    const impossible = [
      '261301000000Z',
      '260001000000Z',
      '260100000000Z',
      '260132000000Z',
      '260229000000Z',
      '260101240000Z',
      '260101006000Z',
      '260101000060Z',
      '2601010000Z',
      '260101000000+',
      '26010100000aZ',
    ]
    for (const text of impossible) {
      assert.throws(() => thisUpdate(utcTime(text)), text)
      assert.throws(
        () => readRevocationList(unsignedList({ times: [utcTime('260101000000Z'), utcTime(text)] })),
        text,
      )
      const dated = der(0x30, der(0x02, '01'), utcTime(text))
      assert.throws(() => readRevocationList(unsignedList({ entries: [dated] })), text)
    }
    assert.throws(() => thisUpdate(generalizedTime('00260101000000Z')))
    assert.throws(() => thisUpdate(generalizedTime('20260101000000.5Z')))
  })
})
