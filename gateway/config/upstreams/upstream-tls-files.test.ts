import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { makeAuthority, makeCertificate } from '../../tls/demo/throw-away-ca.ts'
import { loadSettings } from '../load-settings.ts'
import { changeOf } from '../reload/settings-change.ts'
import { shownSettings } from '../shown-settings.ts'

const ca = await makeAuthority({ subject: 'CN=Root' })
const own = await makeCertificate({ subject: 'CN=gateway', issuer: ca })
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const format = { type: 'pkcs8', format: 'pem' } as const
const encrypted = privateKey.export({ ...format, cipher: 'aes-256-cbc', passphrase: 'x' }) as string
const weak = await makeAuthority({ subject: 'CN=Weak', rsaBits: 1024 })

const FILES: Readonly<Record<string, string>> = {
  'ca.pem': ca.certPem,
  'own.pem': own.certPem,
  'own.key': own.keyPem,
  'other.key': privateKey.export(format) as string,
  'encrypted.key': encrypted,
  'weak.pem': weak.certPem,
  'weak.key': weak.keyPem,
  'broken.pem': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
  'cut.pem': `${ca.certPem}${ca.certPem.slice(0, 200)}`,
  'joined.pem': `${ca.certPem.slice(0, 200)}\n${ca.certPem}`,
  'empty.pem': '',
}

function load(
  tls: object,
  more: Readonly<Record<string, string>> = {},
  targets = ['https://a', 'https://b'],
) {
  const file = {
    upstream: 'http://x',
    upstreams: { pay: { targets, tls } },
    routes: [{ path: '/*', auth: ['none'], upstream: 'pay' }],
  }
  const files = { ...FILES, ...more }
  return loadSettings({ GATEWAY_CONFIG: 'gateway.json' }, (name) => {
    const text = name === 'gateway.json' ? JSON.stringify(file) : files[name]
    if (text === undefined) throw new Error(`ENOENT: ${name}`)
    return text
  })
}

const WHOLE = { caFile: 'ca.pem', certFile: 'own.pem', keyFile: 'own.key' }

test('the TLS settings of a group have their defaults, and the texts of their files', () => {
  const { value } = load({ ...WHOLE, serverName: 'pay.internal' })
  assert.deepEqual(value?.upstreams.pay?.tls, {
    ...WHOLE,
    serverName: 'pay.internal',
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.3',
  })
  assert.deepEqual(value.upstreamTls, { pay: { ca: ca.certPem, cert: own.certPem, key: own.keyPem } })
})

test('a key is shown nowhere, and a file with another text is a change', () => {
  const [before, after] = [load(WHOLE), load(WHOLE, { 'ca.pem': weak.certPem })].map(({ value }) => value)
  assert.ok(before && after)
  assert.doesNotMatch(JSON.stringify(shownSettings(before)), /PRIVATE|CERTIFICATE/)
  assert.deepEqual(changeOf(before, after), {
    keys: ['upstreams.*.tls'],
    before: { 'upstreams.*.tls': '(secret)' },
    after: { 'upstreams.*.tls': '(secret)' },
  })
})

for (const [what, tls, reason] of [
  ['a file that is not there', { caFile: 'none.pem' }, 'caFile: none.pem: cannot be read: ENOENT: none.pem'],
  [
    'a file without certificates',
    { caFile: 'empty.pem' },
    'caFile: empty.pem: must hold certificates in PEM',
  ],
  [
    'a certificate without its end',
    { caFile: 'cut.pem' },
    'caFile: cut.pem: certificate 2 is not an X.509 certificate',
  ],
  [
    'a certificate without an end before another',
    { caFile: 'joined.pem' },
    'caFile: joined.pem: certificate 1 is not an X.509 certificate',
  ],
  [
    'a broken certificate',
    { caFile: 'broken.pem' },
    'caFile: broken.pem: certificate 1 is not an X.509 certificate',
  ],
  [
    'a certificate without its key',
    { certFile: 'own.pem' },
    'keyFile: is missing: certFile and keyFile belong together',
  ],
  [
    'a key without its certificate',
    { keyFile: 'own.key' },
    'certFile: is missing: certFile and keyFile belong together',
  ],
  [
    'the key of another certificate',
    { certFile: 'own.pem', keyFile: 'other.key' },
    'keyFile: other.key: is not the key of the certificate in own.pem',
  ],
  [
    'an encrypted key',
    { certFile: 'own.pem', keyFile: 'encrypted.key' },
    'keyFile: encrypted.key: is encrypted: store it decrypted, readable by the gateway alone',
  ],
  [
    'a certificate in place of the key',
    { certFile: 'own.pem', keyFile: 'own.pem' },
    'keyFile: own.pem: must hold one private key in PEM',
  ],
  [
    'an address as the name',
    { serverName: '127.0.0.1' },
    'serverName: must be a name: SNI allows no address (RFC 6066 section 3)',
  ],
  [
    'a lowest version above the highest',
    { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.2' },
    'minVersion: must not be above maxVersion, TLSv1.2',
  ],
] as const) {
  test(`${what} is a fault that names the file and the reason`, () => {
    const [fault, ...more] = load(tls).faults ?? []
    assert.deepEqual(more, [])
    assert.equal(fault?.file, 'gateway.json')
    const told = `${fault?.path}: ${fault?.reason.replace(/ \(line \d+\)$/, '')}`
    assert.equal(told, `$.upstreams.pay.tls.${reason}`)
  })
}

test('a certificate that OpenSSL refuses is a fault', () => {
  const [fault] = load({ certFile: 'weak.pem', keyFile: 'weak.key' }).faults ?? []
  assert.match(`${fault?.path}: ${fault?.reason}`, /certFile: weak\.pem: OpenSSL refuses it: .*too small/)
})

test('a target without TLS is a fault in a group with TLS settings', () => {
  const [fault] = load({}, {}, ['https://a', 'http://b']).faults ?? []
  assert.equal(fault?.path, '$.upstreams.pay.tls')
  assert.equal(fault?.reason, 'must not be given: no TLS is spoken with http://b')
})

test('faults of variables do not hide those of files, whether a variable or the file names the targets', () => {
  const tls = { caFile: 'broken.pem' }
  const file = { upstream: 'http://x', upstreams: { default: { tls }, pay: { targets: ['https://a'], tls } } }
  const text = JSON.stringify({ ...file, routes: [{ path: '/*', auth: ['none'] }] })
  const read = (name: string) => (name === 'config/gateway.json' ? text : (FILES[name] ?? ''))
  const env = { GATEWAY_PORT: 'none', GATEWAY_UPSTREAM: 'https://y' }
  const places = (loadSettings(env, read).faults ?? []).map(({ path }) => path)
  assert.deepEqual(places, [
    'GATEWAY_PORT',
    ...['default', 'pay'].map((group) => `$.upstreams.${group}.tls.caFile`),
  ])
})
