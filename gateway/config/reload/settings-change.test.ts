import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadSettings } from '../load-settings.ts'
import type { Settings } from '../settings.ts'
import { changeOf, keysThatWait, withoutRestart } from './settings-change.ts'

function settings(file: object = {}): Settings {
  const routes = [{ path: '/*', auth: ['none'] }]
  const { value, faults } = loadSettings({}, (name) =>
    name === 'secret' ? 'a-secret-of-at-least-32-characters' : JSON.stringify({ routes, ...file }),
  )
  assert.deepEqual(faults, undefined)
  return value as Settings
}

test('two readings of one file differ in nothing, and networks, names and sets are compared by what they hold', () => {
  const file = { trustedProxies: ['10.0.0.0/8', '::1'], allowedFieldNames: ['a_b'] }
  assert.equal(changeOf(settings(file), settings(file)), undefined)
  assert.deepEqual(changeOf(settings(file), settings({ ...file, trustedProxies: ['10.0.0.0/9'] }))?.keys, [
    'trustedProxies',
  ])
  assert.deepEqual(changeOf(settings(file), settings({ trustedProxies: file.trustedProxies }))?.keys, [
    'allowedFieldNames',
  ])
})

test('a list shows only rows that the other list lacks, unless the lists differ only in order', () => {
  const row = (path: string) => ({ path, auth: ['none'] })
  const paths = (value: unknown) => (value as { path: string }[]).map(({ path }) => path)
  const shown = changeOf(
    settings({ routes: [row('/a'), row('/b')] }),
    settings({ routes: [row('/b'), row('/c')] }),
  )
  assert.deepEqual([paths(shown?.before.routes), paths(shown?.after.routes)], [['/a'], ['/c']])
  const turned = changeOf(
    settings({ routes: [row('/a'), row('/b')] }),
    settings({ routes: [row('/b'), row('/a')] }),
  )
  assert.deepEqual(
    [paths(turned?.before.routes), paths(turned?.after.routes)],
    [
      ['/a', '/b'],
      ['/b', '/a'],
    ],
  )
})

test('a secret is never shown', () => {
  const change = changeOf(settings(), settings({ upstreamSecretFile: 'secret' }))
  assert.deepEqual([change?.before.upstreamSecret, change?.after.upstreamSecret], [null, '(secret)'])
})

test('a key that needs a restart keeps its value and is named as the file names it', () => {
  const running = settings()
  const wanted = settings({ port: 8081, audit: { file: '-' }, timeouts: { handshakeMs: 1, connectMs: 7 } })
  assert.deepEqual(keysThatWait(running, wanted), ['port', 'audit.file', 'timeouts.handshakeMs'])
  const named = settings({ adminTokenFile: 't', tracing: { endpoint: 'http://c:4318' } })
  assert.deepEqual(keysThatWait(running, named), ['adminTokenFile', 'tracing'])
  const kept = withoutRestart(running, named)
  assert.deepEqual([kept.adminTokenFile, kept.tracing], [undefined, undefined])
  const inForce = withoutRestart(running, wanted)
  assert.deepEqual([inForce.port, inForce.audit.file], [running.port, running.audit.file])
  assert.deepEqual([inForce.timeouts.handshakeMs, inForce.timeouts.connectMs], [5000, 7])
  assert.deepEqual(keysThatWait(running, settings()), [])
  const degraded = settings({ limits: { onJournalFailure: 'degraded' } })
  assert.deepEqual(keysThatWait(running, degraded), ['limits.onJournalFailure'])
  assert.equal(withoutRestart(running, degraded).limits.onJournalFailure, 'unready')
})
