import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { loadSettings } from '../load-settings.ts'

const INTROSPECTION = {
  url: 'https://login.example/introspect',
  clientId: 'countersign',
  clientSecretFile: 'secret',
}
const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'secp384r1' })
const FILES: Readonly<Record<string, string>> = {
  secret: 'the secret\n',
  'two lines': 'one\ntwo\n',
  'key.pem': generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  'p384.pem': privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  'limits.json': '{"limits":[]}',
}

function load(introspection: object, changes: object = {}) {
  const issuers = [
    {
      issuer: 'https://login.example',
      jwksUri: 'https://login.example/jwks',
      audience: 'api',
      introspection,
    },
  ]
  const file = JSON.stringify({ issuers, routes: [{ path: '/*', auth: ['bearer'] }], ...changes })
  return loadSettings({ GATEWAY_CONFIG: 'gateway.json' }, (name) => {
    const text = name === 'gateway.json' ? file : FILES[name]
    if (text === undefined) throw new Error('it is not there')
    return text
  })
}

test('introspection has its defaults', () => {
  const { value, faults } = load(INTROSPECTION)
  assert.deepEqual(faults, undefined)
  assert.deepEqual(value?.issuers[0]?.introspection, {
    ...INTROSPECTION,
    for: 'opaque',
    cacheMs: 30_000,
    negativeCacheMs: 5_000,
    timeoutMs: 2000,
    signed: false,
  })
})

for (const [title, changes, path, reason] of [
  ['plain http to another machine', { url: 'http://login.example/x' }, '', /has a url that must be https/],
  ['no proof', { clientSecretFile: undefined }, '', /needs "clientSecretFile" or "keyFile"/],
  ['two proofs', { keyFile: 'key.pem' }, '', /must have either/],
  ['a cache of six minutes', { cache: '6m' }, '', /must have a cache of at most "5m"/],
  ['a cache that is no span', { cache: 'never' }, '.cache', /must be "off", or a whole number/],
  ['a secret of two lines', { clientSecretFile: 'two lines' }, '.clientSecretFile', /must hold one line/],
  ['a secret that is not there', { clientSecretFile: 'none' }, '.clientSecretFile', /cannot be read/],
  [
    'a key of P-384',
    { clientSecretFile: undefined, keyFile: 'p384.pem' },
    '.keyFile',
    /P-256, Ed25519 or RSA/,
  ],
  [
    'a certificate that is none',
    { clientSecretFile: undefined, keyFile: 'key.pem', certFile: 'secret' },
    '.certFile',
    /must hold a certificate/,
  ],
] as const) {
  test(`introspection with ${title} is a fault`, () => {
    const { faults = [] } = load({ ...INTROSPECTION, ...changes })
    assert.equal(faults.length, 1, JSON.stringify(faults))
    assert.equal(faults[0]?.path, `$.issuers[0].introspection${path}`)
    assert.match(faults[0]?.reason ?? '', reason)
  })
}

test('a row may trust one issuer with introspection, but not two', () => {
  const own = { introspection: { ...INTROSPECTION, keyFile: 'key.pem', clientSecretFile: undefined } }
  const { faults = [] } = load(INTROSPECTION, own)
  assert.deepEqual(
    faults.map(({ path }) => path),
    ['$.routes[0].trustIssuers'],
  )
  assert.match(faults[0]?.reason ?? '', /at most one issuer with introspection/)
  const routes = [{ path: '/*', auth: ['bearer'], trustIssuers: ['https://login.example'] }]
  assert.deepEqual(load(INTROSPECTION, { ...own, routes }).faults, undefined)
})
