import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { sharedSecret } from './shared-addresses.ts'

test('the secret of npm start is made once, for its owner only, and gateway and backend share it', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secret-'))
  t.after(() => rmSync(dir, { recursive: true }))
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
