import assert from 'node:assert/strict'
import { createHash, createPrivateKey, type KeyObject, randomUUID, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { profileOf } from '../../config/clients/signature-profiles.ts'
import { LONGER } from '../../e2e/long-runs.ts'
import { type Authority, makeAuthority } from '../../tls/demo/throw-away-ca.ts'
import { NOW_MS, publicJwk } from '../tokens/issuer.test-support.ts'
import { judge, type Message, replaced, signBytes, type TestClient } from './signed-request.test-support.ts'

const BODY = '{"instructedAmount":{"amount":"12.50"}}'
const REQUEST_ID = '99391c7e-ad88-49ec-a2ad-99ddcb1f7721'
const BERLIN = profileOf({ profile: 'berlin-group' })
const LONG = { fromDays: -3650, untilDays: 3650, rsaBits: 2048 }
const SEAL = await makeAuthority({ subject: 'CN=TPP Seal,O=TPP,C=DE', ...LONG })
const OTHER_SEAL = await makeAuthority({ subject: 'CN=Other,O=Other,C=DE', ...LONG })

/** Certificate and key of each authority, read once. */
const read = new WeakMap<Authority, { certificate: X509Certificate; key: KeyObject }>()

function readOf(seal: Authority) {
  return read.getOrInsertComputed(seal, ({ certPem, keyPem }) => ({
    certificate: new X509Certificate(certPem),
    key: createPrivateKey(keyPem),
  }))
}

/** The keyId of a certificate. */
function keyIdOf(seal: Authority): string {
  const { serialNumber, issuer } = readOf(seal).certificate
  return `SN=${serialNumber},CA=${issuer.split('\n').reverse().join(',')}`
}

const derOf = (seal: Authority) => readOf(seal).certificate.raw.toString('base64')

function jwkOf(seal: Authority, changes: Record<string, unknown> = {}): object {
  return publicJwk(readOf(seal).key, { kid: keyIdOf(seal), x5c: [derOf(seal)], ...changes })
}

const TPP: TestClient = { id: 'tpp', jwks: [jwkOf(SEAL)], profile: BERLIN }
const digestOf = (body: string, name = 'SHA-256') =>
  `${name}=${createHash(name.replace('-', '')).update(body).digest('base64')}`
const dateOf = (seconds: number) => new Date(NOW_MS + seconds * 1000).toUTCString()

interface Signed {
  readonly headers?: string
  readonly keyId?: string
  readonly algorithm?: string
  readonly seal?: Authority
  readonly fields?: Readonly<Record<string, string>>
  readonly body?: string
  readonly sign?: (text: string) => Buffer
}

/** A payment as a TPP sends it, signed rightly over the headers that it names. */
function messageOf({
  headers = 'digest x-request-id date',
  seal = SEAL,
  body = BODY,
  ...more
}: Signed = {}): Message {
  const { keyId = keyIdOf(seal), algorithm = 'rsa-sha256', fields = {} } = more
  const sign = more.sign ?? ((text: string) => signBytes(text, readOf(seal).key, 'RS256'))
  const [method, target] = ['POST', '/v1/payments/sepa-credit-transfers?x=1']
  const sent: Record<string, string> = {
    'X-Request-ID': REQUEST_ID,
    Date: dateOf(0),
    Digest: digestOf(body),
    'TPP-Signature-Certificate': derOf(seal),
    ...fields,
  }
  const lower = new Map(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value]))
  lower.set('(request-target)', `${method.toLowerCase()} ${target}`)
  const names = headers.toLowerCase().split(' ')
  const text = names.map((name) => `${name}: ${lower.get(name)}`).join('\n')
  sent.Signature = `keyId="${keyId}",algorithm="${algorithm}",headers="${headers}",signature="${sign(text).toString('base64')}"`
  return { method, target, authority: 'api.example', body, fields: Object.entries(sent) }
}

const faultOf = (signed?: Signed, clients = [TPP]) => judge(messageOf(signed), clients).fault ?? 'accepted'

test('a request that is signed as the guidelines want it is accepted', () => {
  const pem = SEAL.certPem.trim().replaceAll('\n', '')
  for (const signed of [
    {},
    { headers: 'Digest X-Request-ID Date' },
    { headers: '(request-target) date digest x-request-id' },
    { fields: { Digest: digestOf(BODY, 'SHA-512') } },
    { fields: { Digest: digestOf(BODY).replace('SHA', 'sha') } },
    { body: '' },
    { fields: { 'TPP-Signature-Certificate': pem } },
    {
      headers: 'digest x-request-id psu-id psu-corporate-id tpp-redirect-uri date',
      fields: { 'PSU-ID': 'anna', 'PSU-Corporate-ID': 'acme', 'TPP-Redirect-URI': 'https://tpp.example' },
    },
  ])
    assert.equal(judge(messageOf(signed), [TPP]).client, 'tpp', JSON.stringify(signed))
})

test('a signature over fewer headers than the guidelines demand is refused', () => {
  for (const headers of [
    'date',
    'digest x-request-id',
    'digest date',
    'x-request-id date',
    'digest x-request-id date date',
    'digest x-request-id date digest',
    'digest  x-request-id date',
    'digest x-request-id date (created)',
  ])
    assert.notEqual(faultOf({ headers }), 'accepted', headers)
  for (const name of ['PSU-ID', 'PSU-Corporate-ID', 'TPP-Redirect-URI', 'Idempotency-Key'])
    assert.match(faultOf({ fields: { [name]: 'a' } }), /^uncovered/, name)
  const psu = { headers: 'digest x-request-id date psu-id', fields: { 'PSU-ID': 'anna' } }
  assert.equal(faultOf(psu), 'accepted')
  assert.match(faultOf({ ...psu, fields: { ...psu.fields, Connection: 'psu-id' } }), /^mismatch/)
  const bare = messageOf({ headers: 'date' })
  const field = bare.fields.at(-1) as Message['fields'][number]
  field[1] = field[1].replace('headers="date",', '')
  assert.match(judge(bare, [TPP]).fault ?? '', /^uncovered/)
})

test('a digest must be one of SHA-256 or SHA-512, and of the body', () => {
  for (const digest of [
    digestOf(BODY, 'SHA-1'),
    `SHA=${createHash('sha1').update(BODY).digest('base64')}`,
    digestOf(BODY, 'MD5'),
    `${digestOf(BODY)},${digestOf(BODY)}`,
    `${digestOf(BODY)}, ${digestOf(BODY, 'SHA-512')}`,
    `${digestOf('other')},${digestOf(BODY)}`,
    digestOf('other'),
    digestOf(BODY).replace(/=$/, ''),
    `SHA-256=${createHash('sha256').update(BODY).digest('hex')}`,
    `__proto__=${createHash('sha256').update(BODY).digest('base64')}`,
    '',
  ])
    assert.match(faultOf({ fields: { Digest: digest } }), /^digest_mismatch/, digest)
})

test('only rsa-sha256 by the key of the client is accepted', () => {
  for (const algorithm of ['', 'none', 'hs2019', 'rsa-sha1', 'rsa-sha512', 'hmac-sha256', 'RSA-SHA256'])
    assert.match(faultOf({ algorithm }), /^unsupported/, algorithm)
  const key = createPrivateKey(SEAL.keyPem)
  for (const algorithm of ['PS256', 'PS512'] as const)
    assert.match(faultOf({ sign: (text) => signBytes(text, key, algorithm) }), /^mismatch/)
  const other = createPrivateKey(OTHER_SEAL.keyPem)
  assert.match(faultOf({ sign: (text) => signBytes(text, other, 'RS256') }), /^mismatch/)
  const pinned = { ...TPP, jwks: [jwkOf(SEAL, { alg: 'PS256' })] }
  assert.match(faultOf({}, [pinned]), /^mismatch/)
})

test('the certificate must be the one that the client publishes, of this key and of this time', async () => {
  const certificate = (seal: Authority) => ({ 'TPP-Signature-Certificate': derOf(seal) })
  assert.match(faultOf({ fields: certificate(OTHER_SEAL) }), /^mismatch: TPP-Signature-Certificate is not/)
  // The client has made another certificate for its own key. Such a certificate could claim anything.
  const made = await makeAuthority({ subject: 'CN=TPP,O=Central Bank', ...LONG, keys: SEAL.keys })
  assert.match(faultOf({ fields: certificate(made) }), /^mismatch: TPP-Signature-Certificate is not/)
  const missing = messageOf()
  missing.fields = missing.fields.filter(([name]) => name !== 'TPP-Signature-Certificate')
  assert.match(judge(missing, [TPP]).fault ?? '', /^malformed/)
  assert.match(faultOf({ fields: { 'TPP-Signature-Certificate': `${derOf(SEAL)}!` } }), /^mismatch/)
  // The JWK has no certificate, that of another key, or something else.
  for (const x5c of [undefined, [], 'a', [1], ['AA=='], [derOf(OTHER_SEAL)], { 0: derOf(SEAL) }])
    assert.match(faultOf({}, [{ ...TPP, jwks: [jwkOf(SEAL, { x5c })] }]), /no certificate of its own/)
  for (const days of [{ untilDays: 1 }, { fromDays: 3600 }]) {
    const seal = await makeAuthority({ subject: 'CN=TPP', ...LONG, ...days })
    assert.match(faultOf({ seal }, [{ ...TPP, jwks: [jwkOf(seal)] }]), /^stale: The certificate/)
  }
  for (const kid of [`SN=1234,CA=CN=TPP`, 'key-1', keyIdOf(SEAL).replace('SN=', 'SN=1')])
    assert.match(faultOf({ keyId: kid }, [{ ...TPP, jwks: [jwkOf(SEAL, { kid })] }]), /^malformed: The keyId/)
  const kid = keyIdOf(SEAL).replace(/SN=(\w+)/, (_, serial) => `SN=00${serial.toLowerCase()}`)
  assert.equal(faultOf({ keyId: kid }, [{ ...TPP, jwks: [jwkOf(SEAL, { kid })] }]), 'accepted')
})

test('a client that publishes the key of another gets nothing of what the other has signed', () => {
  // Nothing signs the keyId, so anyone can change it.
  const thief: TestClient = {
    id: 'thief',
    jwks: [jwkOf(SEAL, { kid: `${keyIdOf(SEAL)},OU=X` })],
    profile: BERLIN,
  }
  assert.match(faultOf({ keyId: `${keyIdOf(SEAL)},OU=X` }, [TPP, thief]), /publish the same key/)
  assert.match(faultOf({}, [TPP, thief]), /publish the same key/)
})

test('a request is good for five minutes after its Date, which must be unambiguous, and is known by its id', () => {
  for (const seconds of [-300, 0, 10])
    assert.equal(faultOf({ fields: { Date: dateOf(seconds) } }), 'accepted')
  for (const seconds of [-301, 11]) assert.match(faultOf({ fields: { Date: dateOf(seconds) } }), /^stale/)
  const late = judge(messageOf(), [TPP], NOW_MS, NOW_MS + 300_001)
  assert.match(late.fault ?? '', /^stale/, 'when its body came')
  for (const date of [
    '',
    'now',
    new Date(NOW_MS).toISOString(),
    `${dateOf(0)} `,
    dateOf(0).replace('GMT', 'UTC'),
  ])
    assert.match(faultOf({ fields: { Date: date } }), /^malformed: Date/, date)
  const uniqueOf = (signed: Signed) => judge(messageOf(signed), [TPP]).unique
  assert.equal(uniqueOf({}), uniqueOf({ body: 'other' }))
  assert.notEqual(uniqueOf({}), uniqueOf({ fields: { 'X-Request-ID': randomUUID() } }))
})

test('a malformed Signature is refused, and one of RFC 9421 counts as missing', () => {
  const good = messageOf().fields.at(-1)?.[1] ?? ''
  const signature = (text: string, ...more: Message['fields']) => {
    const message = messageOf()
    message.fields.splice(-1, 1, ['Signature', text], ...more)
    return judge(message, [TPP]).fault ?? 'accepted'
  }
  assert.equal(signature(good.replaceAll('",', '" , ')), 'accepted')
  for (const text of [
    '',
    'sig=:AA==:',
    `Signature ${good}`,
    `${good},`,
    `,${good}`,
    `${good},keyId="x"`,
    `keyId="x",${good}`,
    `${good}, ${good}`,
    good.replace('",', '" '),
    good.replace('keyId', 'keyid'),
    good.replace('keyId="', 'keyId="\\'),
    good.replace(/signature=".*"/, 'signature=""'),
    good.replace(/"$/, ' "'),
    good.replace(/=*"$/, '"'),
  ])
    assert.notEqual(signature(text), 'accepted', text)
  assert.equal(signature(good, ['Signature-Input', 'sig=("@method")']), 'missing')
})

const COVERED = 'digest x-request-id date (request-target) psu-id'
const goodMessage = () => messageOf({ headers: COVERED, fields: { 'PSU-ID': 'anna', 'X-Other': 'a' } })

/** Changes, each of which makes another message. The numbers choose the place. */
const CHANGES: readonly ((message: Message, at: number, other: number) => void)[] = [
  (message, at, other) => {
    message.body = replaced(message.body, at, other)
  },
  (message, at) => {
    message.body += [' ', '\n', '\0', message.body][at % 4]
  },
  (message) => {
    message.body = ''
  },
  (message, at, other) => {
    message.target = replaced(message.target, at, other)
  },
  (message, at) => {
    message.method = ['PUT', 'PATCH', 'DELETE'][at % 3] as string
  },
  // All fields but X-Other are signed, or say how the message is signed.
  (message, at, other) => changeField(message, at, (value) => replaced(value, other, at)),
  (message, at) => {
    const field = message.fields[at % 3] as Message['fields'][number]
    field[1] = ` ${field[1]}`
  },
  (message, at, other) => changeField(message, at, (value) => value.slice(0, other % value.length)),
  (message, at) => void message.fields.push([...fieldAt(message, at)]),
  (message, at) => void message.fields.unshift([fieldAt(message, at)[0], '']),
  (message, at) => void message.fields.splice(message.fields.indexOf(fieldAt(message, at)), 1),
  (message) => void message.fields.push(['TPP-Redirect-URI', 'https://mallory.example']),
  (message, at) => {
    const names = COVERED.split(' ')
    const [name = ''] = names.splice(at % names.length, 1)
    names.splice((at % names.length) + 1, 0, ...(at % 2 === 0 ? [] : [name]))
    changeSignature(message, COVERED, names.join(' '))
  },
  (message) => changeSignature(message, COVERED, `${COVERED} x-other`),
  (message) => changeSignature(message, COVERED, `${COVERED} date`),
  (message) => changeSignature(message, 'rsa-sha256', 'rsa-sha512'),
  (message) => changeSignature(message, keyIdOf(SEAL), keyIdOf(OTHER_SEAL)),
  (message) => changeSignature(message, 'signature="', 'signature="AAAA'),
  (message) => changeSignature(message, 'headers="', 'headers="host '),
]

function fieldAt({ fields }: Message, at: number): Message['fields'][number] {
  const signed = fields.filter(([name]) => name !== 'X-Other')
  return signed[at % signed.length] as Message['fields'][number]
}

function changeField(message: Message, at: number, change: (value: string) => string): void {
  const field = fieldAt(message, at)
  field[1] = change(field[1])
}

function changeSignature({ fields }: Message, from: string, to: string): void {
  const field = fields.find(([name]) => name === 'Signature') as Message['fields'][number]
  field[1] = field[1].replace(from, to)
}

/** The names of headers may have capitals. */
function canonical(message: Message): string {
  return JSON.stringify(message).replace(/headers=\\".*?\\"/, (names) => names.toLowerCase())
}

test('no changed message is accepted: its headers, body, target, order, white space, duplicates, certificate', () => {
  const both = [TPP, { id: 'other', jwks: [jwkOf(OTHER_SEAL)], profile: BERLIN }]
  const good = goodMessage()
  assert.equal(judge(good, both).client, 'tpp')
  fc.assert(
    fc.property(fc.nat(CHANGES.length - 1), fc.nat(4000), fc.nat(4000), (which, at, other) => {
      const message = structuredClone(good)
      CHANGES[which]?.(message, at, other)
      fc.pre(canonical(message) !== canonical(good))
      assert.equal(judge(message, both).client, undefined, JSON.stringify(message))
    }),
    { numRuns: 1000 * LONGER },
  )
})
