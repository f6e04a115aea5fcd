import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, test } from 'node:test'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { sharedAddresses, sharedSecret } from './shared-addresses.ts'

describe('gateway and backend of npm start', () => {
  it('keep the defaults where nothing was moved', () => {
    assert.deepEqual(sharedAddresses({}), {})
    assert.deepEqual(sharedAddresses({ GATEWAY_PORT: '0', BACKEND_PORT: '0', GATEWAY_TLS_PORT: '0' }), {})
  })

  it('find each other where the backend was moved', () => {
    const upstream = (env: Record<string, string>) => sharedAddresses(env).GATEWAY_UPSTREAM
    assert.equal(upstream({ BACKEND_PORT: '23000' }), 'http://127.0.0.1:23000')
    assert.equal(upstream({ BACKEND_HOST: '127.0.0.2' }), 'http://127.0.0.2:3000')
    assert.equal(upstream({ BACKEND_HOST: '0.0.0.0', BACKEND_PORT: '23000' }), 'http://127.0.0.1:23000')
    assert.equal(upstream({ BACKEND_HOST: '::', BACKEND_PORT: '23000' }), 'http://[::1]:23000')
    assert.equal(upstream({ BACKEND_HOST: '::1' }), 'http://[::1]:3000')
    assert.equal(upstream({ BACKEND_PORT: '23000', GATEWAY_UPSTREAM: 'http://10.0.0.1' }), undefined)
  })

  it('name the same issuer where the gateway was moved', () => {
    const moved = 'http://localhost:18080'
    assert.deepEqual(sharedAddresses({ GATEWAY_PORT: '18080' }), { PUBLIC_URL: moved, GATEWAY_ISSUER: moved })
    const named = { GATEWAY_PORT: '18080', GATEWAY_TLS_PORT: '18443', PUBLIC_URL: 'http://api.example.com/' }
    assert.deepEqual(sharedAddresses(named), {
      GATEWAY_ISSUER: 'http://api.example.com',
      PUBLIC_MTLS_URL: 'https://api.example.com:18443',
    })
    // The public port may be mapped to the HTTPS listener.
    assert.deepEqual(sharedAddresses({ ...named, PUBLIC_URL: 'https://api.example.com' }), {
      GATEWAY_ISSUER: 'https://api.example.com',
    })
    const own = { GATEWAY_PORT: '18080', GATEWAY_ISSUER: 'https://id.example.com' }
    assert.deepEqual(sharedAddresses(own), {})
  })

  it('leave what gateway.json says in force', (t) => {
    const dir = temporaryDirectory(t)
    const GATEWAY_CONFIG = join(dir, 'gateway.json')
    const env = { GATEWAY_CONFIG, GATEWAY_PORT: '18080', BACKEND_PORT: '23000' }
    const written = '{"issuer": "https://id.example.com", "upstream": "http://10.0.0.1"}'
    for (const text of [written, `\uFEFF${written}`]) {
      writeFileSync(GATEWAY_CONFIG, text)
      assert.deepEqual(sharedAddresses(env), {})
    }
    writeFileSync(GATEWAY_CONFIG, 'no JSON')
    assert.equal(sharedAddresses(env).GATEWAY_UPSTREAM, 'http://127.0.0.1:23000')
  })
})

test('the secret of npm start is made once, for its owner only, and gateway and backend share it', (t) => {
  const dir = temporaryDirectory(t)
  const env = { GATEWAY_DATA_DIR: join(dir, 'data') }
  const first = sharedSecret(env)
  const file = join(dir, 'data', 'upstream-secret')
  assert.deepEqual(first, { GATEWAY_UPSTREAM_SECRET_FILE: file, BACKEND_GATEWAY_SECRET_FILE: file })
  const secret = readFileSync(file, 'utf8')
  assert.match(secret, /^[A-Za-z0-9_-]{43}\n$/)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(statSync(join(dir, 'data')).mode & 0o777, 0o700)
  assert.deepEqual(sharedSecret(env), first)
  assert.equal(readFileSync(file, 'utf8'), secret)
  assert.deepEqual(readdirSync(join(dir, 'data')), ['upstream-secret'])
})

test('a secret that the operator names for one of the two counts for both, and none is made', () => {
  const both = { GATEWAY_UPSTREAM_SECRET_FILE: '/a', BACKEND_GATEWAY_SECRET_FILE: '/a' }
  assert.deepEqual(sharedSecret({ GATEWAY_UPSTREAM_SECRET_FILE: '/a' }), both)
  assert.deepEqual(sharedSecret({ BACKEND_GATEWAY_SECRET_FILE: '/a' }), both)
  const apart = { GATEWAY_UPSTREAM_SECRET_FILE: '/a', BACKEND_GATEWAY_SECRET_FILE: '/b' }
  assert.deepEqual(sharedSecret(apart), apart)
})
