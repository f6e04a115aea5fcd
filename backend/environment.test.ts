import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readEnvironment } from './environment.ts'

function faultsOf(variables: Record<string, string>): string[] {
  const read = readEnvironment(variables)
  return 'faults' in read ? read.faults : []
}

describe('readEnvironment', () => {
  it('has a default for everything', () => {
    assert.deepEqual(readEnvironment({}), {
      host: '127.0.0.1',
      port: 3000,
      gatewaySecretFile: undefined,
      databaseUrl: undefined,
      dataDirectory: 'data/backend',
      publicUrl: 'http://localhost:8080',
      mtlsUrl: undefined,
      demo: true,
      oauthClientsFile: undefined,
      keyRotationDays: 30,
      webhookRetentionDays: 30,
      webhookClientMaxBytes: 1_073_741_824,
    })
  })

  it('takes every variable', () => {
    const variables = {
      BACKEND_HOST: '::1',
      BACKEND_PORT: '0',
      BACKEND_GATEWAY_SECRET_FILE: '/run/secrets/gateway',
      BACKEND_DATA_DIR: '/var/lib/backend',
      BACKEND_DEMO: 'false',
      BACKEND_OAUTH_CLIENTS: '/etc/backend/clients.json',
      BACKEND_KEY_ROTATION_DAYS: '90',
      BACKEND_WEBHOOK_RETENTION_DAYS: '3653',
      BACKEND_WEBHOOK_CLIENT_MAX_BYTES: '107374182400',
      DATABASE_URL: 'postgres://user:secret@db/bank',
      PUBLIC_URL: 'https://api.example.com/',
      PUBLIC_MTLS_URL: 'https://mtls.example.com/',
    }
    assert.deepEqual(readEnvironment(variables), {
      host: '::1',
      port: 0,
      gatewaySecretFile: '/run/secrets/gateway',
      databaseUrl: 'postgres://user:secret@db/bank',
      dataDirectory: '/var/lib/backend',
      publicUrl: 'https://api.example.com',
      mtlsUrl: 'https://mtls.example.com',
      demo: false,
      oauthClientsFile: '/etc/backend/clients.json',
      keyRotationDays: 90,
      webhookRetentionDays: 3653,
      webhookClientMaxBytes: 107_374_182_400,
    })
  })

  it('tells every fault at once, and no secret', () => {
    const faults = faultsOf({
      BACKEND_PORT: '65536',
      DATABASE_URL: 'mysql://user:secret@db/bank',
      PUBLIC_URL: 'ftp://user:secret@example.com',
      PUBLIC_MTLS_URL: 'https://:secret@example.com',
      BACKEND_DEMO: 'yes',
      BACKEND_KEY_ROTATION_DAYS: '0',
      BACKEND_WEBHOOK_RETENTION_DAYS: '36501',
      BACKEND_WEBHOOK_CLIENT_MAX_BYTES: '1GiB',
    })
    const names = faults.map((fault) => fault.split(' ')[0])
    assert.deepEqual(names, [
      'BACKEND_PORT',
      'DATABASE_URL',
      'PUBLIC_URL',
      'PUBLIC_MTLS_URL',
      'BACKEND_DEMO',
      'BACKEND_KEY_ROTATION_DAYS',
      'BACKEND_WEBHOOK_RETENTION_DAYS',
      'BACKEND_WEBHOOK_CLIENT_MAX_BYTES',
    ])
    assert.doesNotMatch(faults.join(), /secret/)
  })

  it("needs the gateway's secret for an address that others reach, and for no other", () => {
    for (const host of ['0.0.0.0', '::', '10.0.0.1', 'backend', '127.example.com']) {
      assert.match(String(faultsOf({ BACKEND_HOST: host })), /BACKEND_GATEWAY_SECRET_FILE must name/, host)
      assert.deepEqual(faultsOf({ BACKEND_HOST: host, BACKEND_GATEWAY_SECRET_FILE: '/s' }), [])
    }
    for (const host of ['localhost', '127.0.0.1', '127.1.2.3', '::1']) {
      assert.deepEqual(faultsOf({ BACKEND_HOST: host }), [])
    }
  })

  it('refuses numbers out of range and URLs of another form', () => {
    for (const port of ['-1', '80a', '1e3', '999999', ' '])
      assert.equal(faultsOf({ BACKEND_PORT: port }).length, 1)
    for (const days of ['-1', '366', '1.5', 'x'])
      assert.equal(faultsOf({ BACKEND_KEY_ROTATION_DAYS: days }).length, 1)
    for (const days of ['0', '-30', '30d', '1e3', '99999'])
      assert.equal(faultsOf({ BACKEND_WEBHOOK_RETENTION_DAYS: days }).length, 1)
    for (const bytes of ['0', '1048575', '1.5e9', '1125899906842625', '9'.repeat(17)])
      assert.equal(faultsOf({ BACKEND_WEBHOOK_CLIENT_MAX_BYTES: bytes }).length, 1)
    for (const url of [
      'localhost',
      'https://a?b=1',
      'https://a#b',
      'https://user@a',
      'https://a/?',
      'https://a/bank',
      'https://a ',
      'https://a/\r',
    ]) {
      assert.equal(faultsOf({ PUBLIC_URL: url }).length, 1, url)
      assert.equal(faultsOf({ PUBLIC_MTLS_URL: url }).length, 1, url)
    }
    assert.equal(faultsOf({ PUBLIC_MTLS_URL: 'http://a' }).length, 1)
    assert.equal(faultsOf({ PUBLIC_MTLS_URL: 'https://a:8443' }).length, 0)
    assert.equal(faultsOf({ DATABASE_URL: 'postgres://[' }).length, 1)
  })

  it('has no demo users in production, and refuses them there', () => {
    const production = readEnvironment({ NODE_ENV: 'production' })
    assert.equal('demo' in production && production.demo, false)
    assert.equal(faultsOf({ NODE_ENV: 'production', BACKEND_DEMO: 'true' }).length, 1)
    assert.equal(faultsOf({ NODE_ENV: 'production', BACKEND_DEMO: 'false' }).length, 0)
  })
})
