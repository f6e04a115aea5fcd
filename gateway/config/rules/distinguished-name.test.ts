import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { canonicalName } from './distinguished-name.ts'

// openssl req -x509 -new -key k.pem -utf8 -multivalue-rdn -subj '/C=DE/O=Bank, B+OU=x \+ y/CN= Müller "B" '
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIB4DCCAYegAwIBAgIUF4PhYhuEikC2sKPeOB0/I4xs47EwCgYIKoZIzj0EAwIw
RTELMAkGA1UEBhMCREUxHjAMBgNVBAsMBXggKyB5MA4GA1UECgwHQmFuaywgQjEW
MBQGA1UEAwwNIE3DvGxsZXIgIkIiIDAgFw0yNjExMjEwNDQ5MDJaGA8yMTI2MTAy
ODA0NDkwMlowRTELMAkGA1UEBhMCREUxHjAMBgNVBAsMBXggKyB5MA4GA1UECgwH
QmFuaywgQjEWMBQGA1UEAwwNIE3DvGxsZXIgIkIiIDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABADRYRz0mY0tDQSVH8u97Ymc+SS4Th0KBBmoid9z+Ly9pYHnKhSJ
9/qj+tgf04KFKTcEHOqKROa3HlN3b90tRlujUzBRMB0GA1UdDgQWBBRAvSxMElBR
cOYJOXNc6p1HEuPe0zAfBgNVHSMEGDAWgBRAvSxMElBRcOYJOXNc6p1HEuPe0zAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIFA1r1k6iCGj5/jMZ8Wb
fKvBk2j/K9b938uFFwMtg/34AiAA+WlfDo0qMSa9naiFFPnM7KC+kj8PeEjFX9jv
OTNG/A==
-----END CERTIFICATE-----`

test('a name is spelt one way, however it was written', () => {
  const name = 'CN="bank-b",O="Bank B",C="DE"'
  for (const text of [
    'CN=bank-b,O=Bank B,C=DE',
    'cn=bank-b, o = Bank B ,c=DE',
    ' CN=bank-b,O=Bank\\ B,C=DE',
    'CN=bank\\2Db,O=Bank B,C=DE',
  ]) {
    assert.equal(canonicalName(text), name, text)
  }
})

test('the order of the parts counts, but not the order within a multi-valued part', () => {
  assert.notEqual(canonicalName('CN=a,O=b'), canonicalName('O=b,CN=a'))
  assert.equal(canonicalName('CN=a+UID=1,O=b'), canonicalName('UID=1+CN=a,O=b'))
  assert.notEqual(canonicalName('CN=a+UID=1,O=b'), canonicalName('CN=a,UID=1,O=b'))
})

test('values count character by character, with their escapes resolved', () => {
  assert.equal(canonicalName('O=Bank\\, Ltd\\+\\"x\\"'), 'O="Bank, Ltd+\\"x\\""')
  assert.equal(canonicalName('O=Bank\\2C Ltd'), canonicalName('O=Bank\\, Ltd'))
  assert.equal(canonicalName('CN=M\\C3\\BCller'), canonicalName('CN=Müller'))
  assert.equal(canonicalName('CN=a=b'), 'CN="a=b"')
  assert.equal(canonicalName('CN=\\ a \\ '), 'CN=" a  "')
  assert.equal(canonicalName('CN=a\\\\ '), 'CN="a\\\\"')
  assert.equal(canonicalName('CN='), 'CN=""')
  assert.equal(canonicalName('1.3.6.1.4.1=#0c0161'), '1.3.6.1.4.1="#0c0161"')
  assert.notEqual(canonicalName('CN=Bank'), canonicalName('CN=bank'))
  assert.notEqual(canonicalName('CN=a\\,O=b'), canonicalName('CN=a,O=b'))
})

test('what is no name has no spelling', () => {
  const texts = ['', ' ', 'bank-b', 'CN', '=x', 'CN=a,', ',CN=a', 'CN=a,,O=b', 'CN=a+', 'CN=a;O=b', 'CN="a"']
  for (const text of [...texts, '/C=DE/CN=a', 'CN=a\\', 'CN=a\\q', 'CN=a<b', '1.=x', 'C N=a', 'CN=a\0']) {
    assert.equal(canonicalName(text), undefined, text)
  }
})

test('a text that is made to take long is read in one pass', () => {
  const many = 1_000_000
  for (const text of [`CN=${' '.repeat(many)}"`, `${' '.repeat(many)}CN`, `CN${' '.repeat(many)}x`]) {
    assert.equal(canonicalName(text), undefined)
  }
  assert.equal(canonicalName(`CN=${'\\\\'.repeat(many)}x`)?.length, 2 * many + 6)
  assert.equal(canonicalName(`CN=${' '.repeat(many)}`), 'CN=""')
})

test('no two names share a spelling, whatever stands in their values', () => {
  const value = fc.string({
    unit: fc.constantFrom('a', ' ', ',', '+', '=', '"', '\\', '#', 'ü', ';', '<'),
    maxLength: 5,
  })
  const name = fc.array(fc.tuple(fc.constantFrom('CN', 'O'), value), { minLength: 1, maxLength: 3 })
  const write = (parts: [string, string][]) =>
    parts.map(([type, text]) => `${type}=${text.replace(/[ "#+,;<=>\\]/g, '\\$&')}`).join(',')
  fc.assert(
    fc.property(name, name, (one, other) => {
      const [first, second] = [canonicalName(write(one)), canonicalName(write(other))]
      assert.ok(first !== undefined && second !== undefined)
      assert.equal(first === second, JSON.stringify(one) === JSON.stringify(other))
    }),
    { numRuns: 2000 },
  )
})

test('the name that openssl prints of a certificate is the name that Node reads', () => {
  const printed = 'CN=\\ M\\C3\\BCller \\"B\\"\\ ,O=Bank\\, B+OU=x \\+ y,C=DE'
  const { subject } = new X509Certificate(CERTIFICATE)
  const lines = (subject ?? '').split('\n').reverse().join(',')
  assert.ok(canonicalName(printed))
  assert.equal(canonicalName(lines), canonicalName(printed))
})
