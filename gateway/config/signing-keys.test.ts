import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { test } from 'node:test'
import { loadSettings } from './load-settings.ts'

const pem = (key: KeyObject) =>
  String(key.export({ format: 'pem', type: key.type === 'private' ? 'pkcs8' : 'spki' }))
const { privateKey: ec } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const { privateKey: ed } = generateKeyPairSync('ed25519')
const { privateKey: rsa } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const FILES: Readonly<Record<string, string>> = {
  ec: pem(ec),
  ed: pem(ed),
  rsa: pem(rsa),
  public: pem(createPublicKey(ec)),
  p384: pem(generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey),
  short: pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey),
  text: 'secret',
}

function load(signing: object | undefined, more: object = {}) {
  const routes = [{ path: '/*', auth: ['none'], signatures: { response: true, upstream: true } }]
  const written = JSON.stringify({ signing, routes, ...more })
  return loadSettings(
    {},
    (file) => FILES[file] ?? (file === 'config/gateway.json' ? written : assert.fail('ENOENT')),
  )
}

const faultsOf = (...loaded: Parameters<typeof load>) =>
  (load(...loaded).faults ?? []).map(({ path, reason }) => `${path}: ${reason}`).join('\n')
const ED = { keyFile: 'ed', algorithm: 'ed25519' }

test('a signing key is of the kind that its algorithm needs', () => {
  for (const [keyFile, algorithm] of [
    ['ec', 'ecdsa-p256-sha256'],
    ['ed', 'ed25519'],
    ['rsa', 'rsa-pss-sha512'],
  ])
    assert.deepEqual(load({ keyFile, algorithm }).value?.signingKeys, [FILES[String(keyFile)]])
  for (const [keyFile, algorithm] of [
    ['ed', 'ecdsa-p256-sha256'],
    ['p384', 'ecdsa-p256-sha256'],
    ['public', 'ecdsa-p256-sha256'],
    ['ec', 'ed25519'],
    ['short', 'rsa-pss-sha512'],
    ['text', 'ed25519'],
  ])
    assert.match(
      faultsOf({ keyFile, algorithm }),
      new RegExp(
        `^\\$\\.signing\\.keyFile: ${keyFile}: must hold an? .*, private and not encrypted, in PEM$`,
      ),
    )
  assert.match(faultsOf({ ...ED, keyFile: 'nowhere' }), /^\$\.signing\.keyFile: nowhere: cannot be read/)
})

test('the claims of uk-jws need an RSA key', () => {
  const rsa = { keyFile: 'rsa', algorithm: 'rsa-pss-sha512' }
  assert.equal(faultsOf({ ...rsa, iss: 'bank', tan: 'bank.example' }), '')
  assert.equal(faultsOf({ ...ED, iss: 'bank' }), '$.signing.iss: needs an RSA key: uk-jws is PS256')
  assert.equal(faultsOf({ ...rsa, tan: 'bank.example' }), '$.signing.tan: needs "iss"')
})

test('only the public half is kept of the keys in alsoPublish', () => {
  const { value } = load({ ...ED, alsoPublish: ['ec', 'rsa', 'public'] })
  const [, ...others] = value?.signingKeys ?? []
  assert.deepEqual(others, [pem(createPublicKey(ec)), pem(createPublicKey(rsa)), FILES.public])
  assert.match(
    faultsOf({ ...ED, alsoPublish: ['ed', 'p384'] }),
    /^\$\.signing\.alsoPublish\[1\]: p384: must hold an EC/,
  )
})

test('a row signs only with a key, and only requests that are the same for each target of its group', () => {
  assert.match(faultsOf(undefined), /^\$\.routes\[0\]\.signatures: needs a key .*"signing"/)
  assert.match(
    faultsOf(ED, { upstream: ['http://a', 'https://b'] }),
    /^\$\.routes\[0\]\.signatures: must not have "upstream" where some services speak TLS/,
  )
  const routes = [{ path: '/*', auth: ['none'], signatures: { upstream: true }, upstreamHost: 'target' }]
  assert.match(
    faultsOf(ED, { upstream: ['http://a', 'http://b'], routes }),
    /^\$\.routes\[0\]\.signatures: must not have "upstream" where "upstreamHost" is "target"/,
  )
  assert.equal(faultsOf(ED, { upstream: ['http://a'], routes }), '')
})
