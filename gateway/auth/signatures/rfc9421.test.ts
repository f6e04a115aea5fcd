import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { test } from 'node:test'
import { Field } from '../../edge/syntax/field.ts'
import type { Algorithm } from '../keys/signature.ts'
import { readKey } from '../keys/verification-key.ts'
import { digestFault } from './content-digest.ts'
import { type SignedRequest, signatureBase } from './signature-base.ts'
import { readSignatures } from './signature-fields.ts'

/* The vectors of RFC 9421: sections 2.1 to 2.5 and appendix B, but for B.2.5, which is signed by HMAC. */

const RSA_PSS = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----`
const JWKS = {
  PS512: createPublicKey(RSA_PSS).export({ format: 'jwk' }),
  ES256: {
    kty: 'EC',
    crv: 'P-256',
    x: 'qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA',
    y: 'Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0',
  },
  EdDSA: { kty: 'OKP', crv: 'Ed25519', x: 'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs' },
}
const DIGEST =
  'sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:'
const B2 = {
  method: 'POST',
  uri: 'https://example.com/foo?param=Value&Pet=dog',
  fields: [
    ['Host', 'example.com'],
    ['Date', 'Tue, 20 Apr 2021 02:07:55 GMT'],
    ['Content-Type', 'application/json'],
    ['Content-Digest', DIGEST],
    ['Content-Length', '18'],
  ],
} as const

interface Message {
  readonly method: string
  readonly uri: string
  readonly fields: readonly (readonly [name: string, value: string])[]
}

function requestOf({ method, uri, fields }: Message): SignedRequest {
  const target = uri.replace(/^https:\/\/[^/]*/, '')
  return { method, uri, target, fields: fields.map(([name, value]) => new Field(name, value)) }
}

function signed(message: Message, input: string, signature: string): Message {
  const fields = [...message.fields, ['Signature-Input', input], ['Signature', signature]] as const
  return { ...message, fields }
}

/** The verdict, and all lines of the base but the last. */
function verify(
  message: Message,
  algorithm: keyof typeof JWKS,
): { readonly lines: string[]; readonly isGood: boolean } {
  const request = requestOf(message)
  const signatures = readSignatures(request.fields)
  assert.ok(typeof signatures !== 'string', String(signatures))
  const [signature] = signatures
  const { base, fault } = signatureBase(request, signature!)
  assert.equal(fault, undefined)
  const check = readKey({ ...JWKS[algorithm], kid: 'x' }).key!.checks.get(algorithm as Algorithm)!
  return {
    lines: base!.split('\n').slice(0, -1),
    isGood: check({ signed: base!, signature: signature!.value }),
  }
}

test('B.2.1: a signature of nothing but its parameters is right, with rsa-pss-sha512', () => {
  const message = signed(
    B2,
    'sig-b21=();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"',
    'sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:',
  )
  assert.deepEqual(verify(message, 'PS512'), { lines: [], isGood: true })
})

test('B.2.2: a signature of selected components is right, with rsa-pss-sha512', () => {
  const message = signed(
    B2,
    'sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"',
    'sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:',
  )
  const lines = ['"@authority": example.com', `"content-digest": ${DIGEST}`, '"@query-param";name="Pet": dog']
  assert.deepEqual(verify(message, 'PS512'), { lines, isGood: true })
})

test('B.2.3: a signature of the whole message is right, with rsa-pss-sha512', () => {
  const message = signed(
    B2,
    'sig-b23=("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"',
    'sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:',
  )
  const lines = [
    '"date": Tue, 20 Apr 2021 02:07:55 GMT',
    '"@method": POST',
    '"@path": /foo',
    '"@query": ?param=Value&Pet=dog',
    '"@authority": example.com',
    '"content-type": application/json',
    `"content-digest": ${DIGEST}`,
    '"content-length": 18',
  ]
  assert.deepEqual(verify(message, 'PS512'), { lines, isGood: true })
})

test('B.2.4: the signature of a response is right by ecdsa-p256-sha256; a request has no @status', () => {
  const base = [
    '"@status": 200',
    '"content-type": application/json',
    '"content-digest": sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:',
    '"content-length": 23',
    '"@signature-params": ("@status" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-ecc-p256"',
  ].join('\n')
  const signature = Buffer.from(
    'wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==',
    'base64',
  )
  assert.equal(
    readKey({ ...JWKS.ES256, kid: 'x' }).key!.checks.get('ES256')!({ signed: base, signature }),
    true,
  )
  const fields = Object.entries({
    'Content-Type': 'application/json',
    'Content-Digest': base.split('\n')[2]?.slice('"content-digest": '.length) ?? '',
    'Content-Length': '23',
    'Signature-Input': `sig-b24=${base.split('\n')[4]?.slice('"@signature-params": '.length)}`,
    Signature: `sig-b24=:${signature.toString('base64')}:`,
  }).map(([name, value]) => new Field(name, value))
  const [ofResponse] = readSignatures(fields)
  assert.ok(typeof ofResponse === 'object')
  assert.equal(signatureBase({ status: 200, fields, request: requestOf(B2) }, ofResponse).base, base)
  const message = signed(B2, 'sig=("@status");created=1618884473', 'sig=:AA==:')
  const [read] = readSignatures(requestOf(message).fields)
  assert.ok(typeof read === 'object')
  assert.match(signatureBase(requestOf(message), read).fault ?? '', /"@status" is not valid in a request/)
})

test('B.2.6: a signature by ed25519 is right', () => {
  const message = signed(
    B2,
    'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
    'sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:',
  )
  assert.equal(verify(message, 'EdDSA').isGood, true)
})

test('sections 2.5 and 3.2: the figures are right', () => {
  const message = signed(
    B2,
    'sig1=("@method" "@authority" "@path" "content-digest" "content-length" "content-type");created=1618884473;keyid="test-key-rsa-pss"',
    'sig1=:HIbjHC5rS0BYaa9v4QfD4193TORw7u9edguPh0AW3dMq9WImrlFrCGUDih47vAxi4L2YRZ3XMJc1uOKk/J0ZmZ+wcta4nKIgBkKq0rM9hs3CQyxXGxHLMCy8uqK488o+9jrptQ+xFPHK7a9sRL1IXNaagCNN3ZxJsYapFj+JXbmaI5rtAdSfSvzPuBCh+ARHBmWuNo1UzVVdHXrl8ePL4cccqlazIJdC4QEjrF+Sn4IxBQzTZsL9y9TP5FsZYzHvDqbInkTNigBcE9cKOYNFCn4D/WM7F6TNuZO9EgtzepLWcjTymlHzK7aXq6Am6sfOrpIC49yXjj3ae6HRalVc/g==:',
  )
  assert.equal(verify(message, 'PS512').isGood, true)
})

test('B.3: a signature of the header Client-Cert is right, by ecdsa-p256-sha256', () => {
  const certificate =
    ':MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:'
  const message = signed(
    {
      ...B2,
      uri: 'https://service.internal.example/foo?param=Value&Pet=dog',
      fields: [['Client-Cert', certificate]],
    },
    'ttrp=("@path" "@query" "@method" "@authority" "client-cert");created=1618884473;keyid="test-key-ecc-p256"',
    'ttrp=:xVMHVpawaAC/0SbHrKRs9i8I3eOs5RtTMGCWXm/9nvZzoHsIg6Mce9315T6xoklyy0yzhD9ah4JHRwMLOgmizw==:',
  )
  assert.equal(verify(message, 'ES256').isGood, true)
})

test('B.4: a signature survives what a proxy may do, and nothing else', () => {
  const URI = 'https://example.org/demo?name1=Value1&Name2=value2'
  const BOTH = [
    ['Accept', 'application/json'],
    ['Accept', '*/*'],
  ] as const
  const transformed = (method: string, uri: string, fields: Message['fields']) =>
    verify(
      signed(
        { method, uri, fields },
        'transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"',
        'transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:',
      ),
      'EdDSA',
    ).isGood
  assert.equal(transformed('GET', URI, BOTH), true)
  assert.equal(
    transformed('GET', `${URI}&param=added`, [...BOTH, ['Accept-Language', 'en-US,en;q=0.5']]),
    true,
  )
  assert.equal(transformed('GET', URI, [['Accept', 'application/json, */*']]), true)
  assert.equal(transformed('POST', URI.replace('.org', '.com'), BOTH), false)
  assert.equal(transformed('GET', URI, BOTH.toReversed()), false)
})

test('sections 2.1 and 2.2: components have the values of the examples', () => {
  const message = requestOf({
    method: 'GET',
    uri: 'https://www.example.com/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something&queryString&baz=batman&qux=',
    fields: [
      ['X-OWS-Header', 'Leading and trailing whitespace.'],
      ['Cache-Control', 'max-age=60'],
      ['Cache-Control', 'must-revalidate'],
      ['Example-Dict', 'a=1,    b=2;x=1;y=2,   c=(a   b   c), d'],
      ['Example-Header', 'value, with, lots'],
      ['Example-Header', 'of, commas'],
      ['X-Empty-Header', ''],
      ['Priority', 'u=1,   i'],
    ],
  })
  const shown = (component: string) => {
    const [signature] = readSignatures([
      new Field('Signature-Input', `sig=(${component})`),
      new Field('Signature', 'sig=:AA==:'),
    ]) as Exclude<ReturnType<typeof readSignatures>, string>
    const { base, fault } = signatureBase(message, signature!)
    return fault === undefined ? base.split('\n')[0]?.slice(component.length + 2) : fault
  }
  for (const [component, value] of [
    ['"cache-control"', 'max-age=60, must-revalidate'],
    ['"x-empty-header"', ''],
    ['"example-header"', 'value, with, lots, of, commas'],
    ['"example-header";bs', ':dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:'],
    ['"example-dict"', 'a=1,    b=2;x=1;y=2,   c=(a   b   c), d'],
    ['"example-dict";key="a"', '1'],
    ['"example-dict";key="d"', '?1'],
    ['"example-dict";key="b"', '2;x=1;y=2'],
    ['"example-dict";key="c"', '(a b c)'],
    ['"priority";sf', 'u=1, i'],
    ['"@scheme"', 'https'],
    ['"@path"', '/parameters'],
    ['"@query-param";name="var"', 'this%20is%20a%20big%0Amultiline%20value'],
    ['"@query-param";name="bar"', 'with%20plus%20whitespace'],
    ['"@query-param";name="fa%C3%A7ade%22%3A%20"', 'something'],
    ['"@query-param";name="qux"', ''],
  ] as const)
    assert.equal(shown(component), value)
  for (const component of [
    '"example-dict";sf',
    '"example-dict";key="e"',
    '"example-dict";bs;sf',
    '"example-dict";tr',
    '"@method";req',
    '"@query-param"',
    '"@query-param";name="none"',
    '"@unknown"',
    '"@signature-params"',
    '"Cache-Control"',
    '"not-there"',
  ])
    assert.match(shown(component) ?? '', /^the component /, component)
})

test('a query parameter is encoded by the percent-encode set of application/x-www-form-urlencoded, a space as %20', () => {
  const every = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code)).join('')
  // URL Standard sections 1.3 and 5.2: as `URLSearchParams` encodes, but with %20 for a space.
  const encode = (text: string) =>
    new URLSearchParams({ '': text }).toString().slice(1).replaceAll('+', '%20')
  for (const [name, value] of [
    ["it's", "(a!) ~b* c-._'"],
    ['\u00f6', '\u00fc'],
    ['var', 'this is a big\nmultiline value'],
    ['every', every],
  ] as const) {
    const component = `"@query-param";name="${encode(name)}"`
    const { fields } = requestOf(signed(B2, `sig=(${component})`, 'sig=:AA==:'))
    const [signature] = readSignatures(fields) as Exclude<ReturnType<typeof readSignatures>, string>
    const query = `${encodeURIComponent(name)}=${encodeURIComponent(value)}`
    const { base = '' } = signatureBase(
      requestOf({ ...B2, uri: `https://example.com/?${query}` }),
      signature!,
    )
    assert.equal(base.split('\n')[0], `${component}: ${encode(value)}`)
  }
  assert.equal(encode("(a!) ~b* c-._'"), '%28a%21%29%20%7Eb*%20c-._%27')
})

test('a query parameter that is there twice, or is not UTF-8, has no value', () => {
  const { fields } = requestOf(signed(B2, 'sig=("@query-param";name="a")', 'sig=:AA==:'))
  const [signature] = readSignatures(fields) as Exclude<ReturnType<typeof readSignatures>, string>
  for (const query of ['?a=1&a=1', '?a=1&%61=2', '?a=%FF', '?b=1', ''])
    assert.match(
      signatureBase(requestOf({ ...B2, uri: `https://example.com/${query}` }), signature!).fault ?? '',
      /"@query-param";name="a" is/,
    )
})

test('a query and a field are read once, however many of their members a signature names', (t) => {
  const names = Array.from({ length: 32 }, (_, index) => `a${index}`)
  const components = names.map((name) => `"@query-param";name="${name}" "x";key="${name}"`)
  const message = signed(B2, `sig=(${components.join(' ')})`, 'sig=:AA==:')
  const uri = `https://example.com/?${names.map((name) => `${name}=1`).join('&')}`
  const fields = [...message.fields, ['X', names.join(', ')] as const]
  const request = requestOf({ ...message, uri, fields })
  const [signature] = readSignatures(request.fields) as Exclude<ReturnType<typeof readSignatures>, string>
  const queries = t.mock.method(globalThis, 'URLSearchParams')
  const keys = t.mock.method(RegExp.prototype, 'exec')
  for (let again = 0; again < 4; again++)
    assert.equal(signatureBase(request, signature!).base?.split('\n').length, 65)
  assert.equal(queries.mock.callCount(), 1)
  const read = keys.mock.calls.filter(({ this: expression }) => String(expression).startsWith('/[a-z*]'))
  assert.equal(read.length, names.length)
})

test('RFC 9530: the digest of the body must be right, for each hash that is known', () => {
  const body = Buffer.from('{"hello": "world"}')
  const SHA_256 = 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
  const other = 'sha-256=:AAAE9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
  for (const good of [
    DIGEST,
    SHA_256,
    `${SHA_256}, ${DIGEST}`,
    `md5=:AA==:, ${DIGEST}`,
    `unixsum=5, ${SHA_256}`,
  ])
    assert.equal(digestFault(good, body), undefined, good)
  for (const bad of [
    other,
    `${DIGEST}, ${other}`,
    `${other}, ${DIGEST}`,
    `${SHA_256}, ${SHA_256}`,
    'md5=:Sd/dVLAcvNLSq16eXua5uQ==:',
    'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBA==:',
    'sha-256="X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="',
    'sha-256',
    '',
  ])
    assert.notEqual(digestFault(bad, body), undefined, bad)
  assert.notEqual(digestFault(DIGEST, Buffer.from('{"hello": "World"}')), undefined)
})
