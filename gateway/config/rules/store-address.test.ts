import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeFault } from '../faults.ts'
import { parseStoreSettings, type StoreSettings } from './store-address.ts'

const FILES: Readonly<Record<string, string>> = {
  password: 's3cret-of-the-store\n',
  key: `${'k'.repeat(32)}\n`,
  ca: '-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n',
  short: 'short-secret\n',
}

function read(file: string): string {
  const text = FILES[file]
  if (text === undefined) throw new Error(`ENOENT: ${file}`)
  return text
}

function good(env: Record<string, string>): StoreSettings | undefined {
  const { value, faults } = parseStoreSettings(env, read)
  assert.deepEqual(faults, undefined)
  return value
}

function faults(env: Record<string, string>): string[] {
  return parseStoreSettings(env, read).faults?.map(describeFault) ?? []
}

test('the default is memory', () => {
  assert.equal(good({}), undefined)
  assert.equal(good({ GATEWAY_STORE: 'memory' }), undefined)
})

test('one address is a server, several are a cluster', () => {
  const plain = { service: undefined, tls: undefined, user: undefined, password: undefined }
  const rest = { ...plain, prefix: 'countersign', hashKey: undefined }
  assert.deepEqual(good({ GATEWAY_STORE: 'redis://valkey' }), {
    kind: 'single',
    addresses: [{ host: 'valkey', port: 6379 }],
    ...rest,
  })
  const cluster = {
    kind: 'cluster',
    addresses: [
      { host: 'a', port: 1 },
      { host: '::1', port: 2 },
      { host: '10.0.0.3', port: 6379 },
    ],
    ...rest,
  }
  assert.deepEqual(good({ GATEWAY_STORE: 'redis://a:1,[::1]:2,10.0.0.3/' }), cluster)
  assert.deepEqual(good({ GATEWAY_STORE: 'redis://a:1, redis://[::1]:2, redis://10.0.0.3' }), cluster)
})

test('Sentinels are named with the service that they watch', () => {
  const sentinels = good({ GATEWAY_STORE: 'redis+sentinel://a,b:26380/bank' })
  assert.deepEqual(
    [sentinels?.kind, sentinels?.service, sentinels?.addresses],
    [
      'sentinel',
      'bank',
      [
        { host: 'a', port: 26379 },
        { host: 'b', port: 26380 },
      ],
    ],
  )
  assert.match(
    faults({ GATEWAY_STORE: 'redis+sentinel://a,b' }).join(),
    /GATEWAY_STORE: must end with the name/,
  )
})

test('TLS, user, password, prefix and key come from their variables', () => {
  const settings = good({
    GATEWAY_STORE: 'rediss://a',
    GATEWAY_STORE_CA: 'ca',
    GATEWAY_STORE_USER: 'gateway',
    GATEWAY_STORE_PASSWORD_FILE: 'password',
    GATEWAY_STORE_PREFIX: 'retail',
    GATEWAY_STORE_KEY_FILE: 'key',
  })
  assert.match(settings?.tls?.ca ?? '', /^-----BEGIN/)
  assert.deepEqual(
    [settings?.user, settings?.password, settings?.prefix, settings?.hashKey],
    ['gateway', 's3cret-of-the-store', 'retail', 'k'.repeat(32)],
  )
  assert.deepEqual(good({ GATEWAY_STORE: 'rediss://a' })?.tls, { ca: undefined })
})

test('a password in an address is refused without being repeated', () => {
  for (const address of [
    'redis://u:hunter2@host',
    'redis://:hunter2@a,b',
    'rediss+sentinel://u:hunter2@a/s',
  ]) {
    const [fault = '', ...more] = faults({ GATEWAY_STORE: address })
    assert.match(fault, /^environment: GATEWAY_STORE: must not hold a user or a password/)
    assert.doesNotMatch(fault, /hunter2/)
    assert.deepEqual(more, [])
  }
})

test('a bad address is a fault of GATEWAY_STORE that does not repeat it', () => {
  for (const address of [
    '',
    'hunter2',
    'http://hunter2',
    'redis://',
    'redis://hunter2:0',
    'redis://hunter2:65536',
    'redis://hunter2/1',
    'redis://hunter2,',
    'redis://hunter2,rediss://b',
    'redis://hunter2 b',
    'redis+sentinel:///bank',
    'redis+sentinel://hunter2/bank/1',
  ]) {
    const told = faults({ GATEWAY_STORE: address })
    assert.equal(told.length, 1, address)
    assert.match(told[0] ?? '', /^environment: GATEWAY_STORE: must /)
    assert.doesNotMatch(told[0] ?? '', /hunter2/)
  }
})

test('all faults of the other variables are told at once, each with its name and without the secret', () => {
  const told = faults({
    GATEWAY_STORE: 'redis://a',
    GATEWAY_STORE_CA: 'ca',
    GATEWAY_STORE_USER: 'two words',
    GATEWAY_STORE_PREFIX: 'a{b}',
    GATEWAY_STORE_KEY_FILE: 'short',
    GATEWAY_STORE_PASSWORD_FILE: 'missing',
  }).join('\n')
  for (const name of ['CA', 'USER', 'PREFIX', 'KEY_FILE', 'PASSWORD_FILE']) {
    assert.match(told, new RegExp(`GATEWAY_STORE_${name}: `))
  }
  assert.doesNotMatch(told, /short-secret/)
  const alone = { GATEWAY_STORE: 'redis://a', GATEWAY_STORE_USER: 'u' }
  assert.match(faults(alone).join(), /GATEWAY_STORE_USER: needs GATEWAY_STORE_PASSWORD_FILE/)
})

test('what belongs to a store needs a store', () => {
  assert.deepEqual(faults({ GATEWAY_STORE_PREFIX: 'a' }), [
    'environment: GATEWAY_STORE_PREFIX: has no effect without a shared store: set GATEWAY_STORE',
  ])
})
