import assert from 'node:assert/strict'
import { it } from 'node:test'
import { loadSettings } from '../config/load-settings.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { ConfigInForce } from './config-in-force.ts'

const GATEWAY = {
  trustedProxies: ['10.0.0.0/8'],
  routes: [{ path: '/api/*', methods: ['POST', 'PUT'], auth: ['none'] }],
}
const SECRETS: Readonly<Record<string, string>> = {
  '/upstream': 'the-secret-of-the-upstream-32-bytes-long',
  '/password': 'the-password-of-the-store',
  '/key': 'the-key-of-the-hashes-in-the-store-32',
}

function inForce(gateway: object, env: Readonly<Record<string, string>> = {}, clock = () => 5) {
  const { value: settings, faults } = loadSettings(env, (file) => SECRETS[file] ?? JSON.stringify(gateway))
  assert.ok(settings, JSON.stringify(faults))
  const limits = parseLimits(
    'limits.json',
    '{"limits":[{"path":"/api/*","limit":5,"window":"1m","purpose":"Test"}]}',
  )
  assert.ok(limits.value)
  const parts = { settings, limits: { value: limits.value }, clients: undefined, tls: undefined }
  return new ConfigInForce({ version: '1', ...parts }, clock)
}

it('names every setting, route and limit in force as JSON, and no secret', () => {
  const env = {
    GATEWAY_UPSTREAM_SECRET_FILE: '/upstream',
    GATEWAY_STORE: 'redis://127.0.0.1',
    GATEWAY_STORE_PASSWORD_FILE: '/password',
    GATEWAY_STORE_KEY_FILE: '/key',
  }
  const { parts } = inForce(GATEWAY, env).report()
  const text = JSON.stringify(parts)
  for (const secret of Object.values(SECRETS)) assert.ok(!text.includes(secret), text)
  assert.match(text, /"hasUpstreamSecret":true/)
  assert.match(text, /"hasPassword":true/)
  assert.match(text, /"trustedProxies":\["Subnet: IPv4 10\.0\.0\.0\/8"\]/)
  assert.match(JSON.stringify(parts.gateway?.rows), /"methods":\["POST","PUT"\],"auth":\["none"\]/)
  assert.match(JSON.stringify(parts.limits?.rows), /"limit":5,"window":"1m"/)
})

it('has the same hash for equal configurations, and another hash for a different one', () => {
  const { hash } = inForce(GATEWAY).report()
  const { trustedProxies, routes } = GATEWAY
  const [{ path, methods, auth } = { path: '', methods: [], auth: [] }] = routes
  assert.equal(inForce({ routes: [{ auth, methods, path }], trustedProxies }).report().hash, hash)
  assert.equal(inForce({ ...GATEWAY, via: false }).report().hash, hash, 'the default')
  assert.notEqual(inForce({ ...GATEWAY, via: true }).report().hash, hash)
})

it('has the same hash, whenever clients were first accepted', () => {
  const env = { GATEWAY_TLS_PORT: '1', GATEWAY_TLS_CERT: 'c.pem', GATEWAY_TLS_KEY: 'k.pem' }
  const signed = { routes: [{ path: '/api/*', methods: ['POST'], auth: ['hmac'] }] }
  const { value: settings } = loadSettings(env, () => JSON.stringify(signed))
  assert.ok(settings)
  const clients = { value: { rows: [{ clientId: 'a' }] } as never }
  const read = {
    version: '1',
    settings,
    limits: { value: { rows: [], plans: new Map() } },
    tls: { material: { summary: {} } },
  }
  const [early, late] = [
    { ...read, clients },
    { ...read, clients: undefined },
  ].map((one) => new ConfigInForce(one))
  late?.clientsRead('clients.json', clients.value)
  assert.equal(late?.report().hash, early?.report().hash)
})

it('tells the last edit of each file, and keeps what was in force when an edit fails', async () => {
  let nowMs = 1
  const config = inForce(GATEWAY, {}, () => nowMs)
  const before = config.report()
  nowMs = 2
  const fault = { file: 'limits.json', path: '$', reason: 'is bad' }
  const failed = await config.reloadedBy(async () => config.failed('limits', [fault]))
  assert.deepEqual(failed.limits?.result, 'failure')
  assert.equal(config.report().hash, before.hash)
  assert.deepEqual(config.report().parts.limits?.lastReload, {
    atMs: 2,
    result: 'failure',
    changed: false,
    faults: ['limits.json: $: is bad'],
    needsRestart: [],
  })
  // The fault is still there, though it was reported before.
  assert.equal(config.report(), config.report())
  const again = await config.reloadedBy(() => Promise.resolve())
  assert.deepEqual([again.limits?.result, again.gateway?.result], ['failure', 'unchanged'])
  nowMs = 3
  const good = await config.reloadedBy(async () => config.replaced('limits', [{ path: '/x' }], true))
  assert.equal(good.limits?.result, 'success')
  const { parts, hash } = config.report()
  assert.notEqual(hash, before.hash)
  assert.deepEqual([parts.limits?.rows, parts.limits?.sinceMs], [[{ path: '/x' }], 3])
})

it('names the edited keys that wait for a restart, as long as the file has them', async () => {
  const config = inForce(GATEWAY)
  const { value: settings } = loadSettings({}, () => JSON.stringify(GATEWAY))
  assert.ok(settings)
  const reloaded = async (needsRestart: readonly string[] | undefined) => {
    const results = await config.reloadedBy(async () => {
      if (needsRestart !== undefined) config.replacedSettings(settings, { changed: false, needsRestart })
    })
    return [results.gateway?.result, results.gateway?.needsRestart, results.limits?.needsRestart]
  }
  assert.deepEqual(await reloaded(['dataDir']), ['unchanged', ['dataDir'], []])
  assert.deepEqual(await reloaded(undefined), ['unchanged', ['dataDir'], []])
  assert.deepEqual(config.report().parts.gateway?.lastReload?.needsRestart, ['dataDir'])
  assert.deepEqual(await reloaded([]), ['unchanged', [], []])
})
