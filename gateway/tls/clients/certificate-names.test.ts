import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { skipWithout } from '../../e2e/other-programs.ts'
import { makeCertificate } from '../demo/throw-away-ca.ts'
import { alternativeNamesOf, clientCertHeader, subjectOf } from './certificate-names.ts'

async function certificateOf(subject: string, san?: { type: 'dns' | 'url' | 'dn' | 'upn'; value: string }[]) {
  const { certPem } = await makeCertificate({ subject, ...(san && { san }) })
  return new X509Certificate(certPem)
}

describe('a subject', () => {
  const subjects = [
    'CN=bank-b,OU=Payments,O=Bank B,C=DE',
    'CN=a\\, b\\+c\\;d\\"e\\<f\\>g,O=X',
    'CN=x\\, O\\=Evil,O=Bank B',
    'CN=a \\+ b,O=X',
    'CN=Zürich 銀行,O=X',
    'CN=x,DC=bank,DC=example',
  ]
  for (const subject of subjects) {
    it(`reads as it was requested, and as openssl prints it: ${subject}`, {
      skip: skipWithout('openssl'),
    }, async () => {
      const certificate = await certificateOf(subject)
      const printed = execFileSync('openssl', 'x509 -noout -subject -nameopt RFC2253,-esc_msb'.split(' '), {
        input: certificate.toString(),
        encoding: 'utf8',
      })
      assert.equal(subjectOf(certificate), printed.trim().slice('subject='.length))
      assert.equal(subjectOf(certificate), subject.replace('\\=', '='))
    })
  }

  it('with line breaks in a value gains no names', async () => {
    const certificate = await certificateOf('CN=x\\0AO\\=Evil,O=Bank B')
    assert.equal(subjectOf(certificate), 'CN=x\\0AO=Evil,O=Bank B')
  })

  it('with a backslash in a value has it escaped', { skip: skipWithout('openssl') }, () => {
    // The generator of the other tests cannot write a backslash.
    const args = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj'.split(
      ' ',
    )
    const text = execFileSync('openssl', [...args, '/O=X/CN=a\\\\b'], { stdio: ['pipe', 'pipe', 'ignore'] })
    assert.equal(subjectOf(new X509Certificate(text)), 'CN=a\\\\b,O=X')
  })

  it('joins the parts of a multi-valued name', async () => {
    const certificate = await certificateOf('CN=bank-b+OU=a \\+ b,O=Bank B')
    assert.equal(subjectOf(certificate), 'CN=bank-b+OU=a \\+ b,O=Bank B')
  })

  it('without names is empty', async () => {
    assert.equal(subjectOf(await certificateOf('')), '')
  })
})

describe('alternative names', () => {
  it('with commas, quotes, backslashes, NUL or line breaks are one name each and forge no other', async () => {
    const hostile = [
      'a.example, DNS:bank-b.example',
      'a.example", DNS:bank-b.example',
      'a.example\\", URI:urn:bank-b, DNS:"bank-b.example',
      'bank-b.example\0.evil.example',
      'a\nDNS:bank-b.example',
      "a'b",
      'URI:urn:bank-b',
    ]
    const certificate = await certificateOf(
      'CN=x',
      hostile.map((value) => ({ type: 'dns', value })),
    )
    const { dns, uri } = alternativeNamesOf(certificate)
    assert.deepEqual(
      dns,
      hostile.map((name) => name.toLowerCase()),
    )
    assert.deepEqual(uri, [])
  })

  it('of other kinds are neither DNS names nor URIs', async () => {
    const certificate = await certificateOf('CN=x', [
      { type: 'dn', value: 'CN=a\\, DNS:bank-b.example' },
      { type: 'upn', value: 'x, DNS:bank-b.example' },
      { type: 'url', value: 'https://bank-b.example/a,b?c="d"' },
    ])
    assert.deepEqual(alternativeNamesOf(certificate), { dns: [], uri: ['https://bank-b.example/a,b?c="d"'] })
  })

  it('of any certificate are read unchanged', async () => {
    const ascii = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme-ascii' })
    const pieces = fc.constantFrom(', DNS:', '", ', '\\', 'DNS:"', 'a', '\\"', '\\u0022')
    const name = fc
      .array(fc.oneof(ascii, pieces), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join(''))
    await fc.assert(
      fc.asyncProperty(name, name, async (dns, uri) => {
        const certificate = await certificateOf('CN=x', [
          { type: 'dns', value: dns },
          { type: 'url', value: uri },
        ])
        assert.deepEqual(alternativeNamesOf(certificate), { dns: [dns.toLowerCase()], uri: [uri] })
      }),
      { numRuns: 60 },
    )
  })

  it('are empty when there are none, or when their text cannot be parsed completely', () => {
    const none = { dns: [], uri: [] }
    for (const text of [undefined, '', 'DNS:a, ???', 'DNS:a, DNS:"b', 'DNS:a, DNS:"\\x"', 'DNS:a,DNS:b']) {
      assert.deepEqual(alternativeNamesOf({ subjectAltName: text } as X509Certificate), none, String(text))
    }
  })
})

test('Client-Cert is the DER in base64 between colons', () => {
  assert.equal(clientCertHeader(Buffer.from([0x30, 0x82, 0xff, 0xfe])), ':MIL//g==:')
})
