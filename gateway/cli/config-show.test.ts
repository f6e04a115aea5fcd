import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import schema from '../../config/schemas/gateway.schema.json' with { type: 'json' }
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { countersign } from './program.test-support.ts'

const SECRET = 'hunter2hunter2hunter2'

function show(t: TestContext, gateway: object, env: Readonly<Record<string, string>> = {}, clients?: object) {
  const dir = temporaryDirectory(t)
  const file = (name: string, content: object) => {
    writeFileSync(join(dir, name), JSON.stringify(content))
    return join(dir, name)
  }
  const limits = [{ path: '/a', limit: 5, window: '1m', purpose: 'x' }]
  const flags = ['--config', file('gateway.json', gateway), '--limits', file('limits.json', { limits })]
  if (clients !== undefined) flags.push('--clients', file('clients.json', clients))
  const run = async (...more: string[]) => {
    const said = await countersign(['config', 'show', ...flags, ...more], env)
    return { ...said, stdout: said.stdout.replaceAll(`${dir}/`, '') }
  }
  return { text: () => run(), json: async () => JSON.parse((await run('--json')).stdout) as Row[] }
}

interface Row {
  readonly key: string
  readonly value: unknown
  readonly from: string
}

test('each value says where it comes from: a variable, the file, or the default', async (t) => {
  const gateway = {
    $schema: 'x',
    port: 1,
    timeouts: { connectMs: 7 },
    routes: [{ path: '/a', auth: ['none'] }],
  }
  const rows = await show(t, gateway, {
    GATEWAY_PORT: '8123',
    GATEWAY_UPSTREAM: 'http://127.0.0.1:1',
  }).json()
  const byKey = new Map(rows.map(({ key, ...rest }) => [key, rest]))
  assert.equal(byKey.get('$schema'), undefined)
  assert.deepEqual(byKey.get('port'), { value: 8123, from: 'GATEWAY_PORT' })
  assert.deepEqual(byKey.get('upstream'), { value: 'http://127.0.0.1:1', from: 'GATEWAY_UPSTREAM' })
  assert.deepEqual(byKey.get('timeouts.connectMs'), { value: 7, from: 'gateway.json' })
  const { bodyIdleMs } = schema.properties.timeouts.properties
  assert.deepEqual(byKey.get('timeouts.bodyIdleMs'), { value: bodyIdleMs.default, from: 'default' })
  assert.deepEqual(byKey.get('routes[0].auth'), { value: ['none'], from: 'gateway.json' })
  assert.deepEqual(byKey.get('routes[0].mode'), { value: 'enforce', from: 'default' })
  assert.deepEqual(byKey.get('jwksUri'), {
    value: 'http://127.0.0.1:1/.well-known/jwks.json',
    from: 'default',
  })
  assert.deepEqual(byKey.get('limits[0].limit'), { value: 5, from: 'limits.json' })
  assert.deepEqual(byKey.get('limits[0].per'), { value: 'caller', from: 'default' })
  assert.deepEqual(byKey.get('GATEWAY_CONFIG'), { value: 'gateway.json', from: 'GATEWAY_CONFIG' })
})

test('clients and the variables of OpenTelemetry are shown, and no key that a variable replaces', async (t) => {
  const gateway = {
    tracing: {
      endpoint: 'http://127.0.0.1:1',
      ratio: 0.5,
      delayMs: 5,
      serviceName: 'file',
      resource: { a: 'b' },
    },
    routes: [{ path: '/a', auth: ['hmac'] }],
  }
  const hmac = { keyId: 'k1', secrets: [{ env: 'ACME_SECRET' }] }
  const rows = await show(
    t,
    gateway,
    {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:2/v1/traces?key=${SECRET}`,
      OTEL_EXPORTER_OTLP_HEADERS: `api-key=${SECRET}`,
      OTEL_TRACES_SAMPLER: 'always_on',
      OTEL_SERVICE_NAME: 'variable',
      OTEL_METRICS_EXPORTER: 'none',
    },
    { clients: [{ id: 'acme', hmac }] },
  ).json()
  assert.ok(!JSON.stringify(rows).includes(SECRET))
  const from = Object.fromEntries(rows.map(({ key, from: source }) => [key, source]))
  assert.equal(from['clients[0].id'], 'clients.json')
  assert.equal(from['clients[0].scopes'], 'default')
  for (const name of [
    'TRACES_SAMPLER',
    'SERVICE_NAME',
    'EXPORTER_OTLP_TRACES_ENDPOINT',
    'EXPORTER_OTLP_HEADERS',
  ])
    assert.equal(from[`OTEL_${name}`], `OTEL_${name}`)
  assert.deepEqual(
    Object.keys(from)
      .filter((key) => /^tracing|METRICS/.test(key))
      .sort(),
    ['compression', 'delayMs', 'maxQueue', 'resource.a', 'timeoutMs'].map((key) => `tracing.${key}`),
  )
})

test('every key with a default is shown once', async (t) => {
  const shown = await show(t, { routes: [{ path: '/a', auth: ['none'] }] }).json()
  const keys = shown.map(({ key }) => key)
  assert.equal(new Set(keys).size, keys.length)
  for (const [key, property] of Object.entries(schema.properties))
    if ('default' in property)
      assert.ok(
        keys.some((one) => one.split(/[.[]/)[0] === key),
        key,
      )
})

test('a secret that stands where it does not belong is not shown', async (t) => {
  const set = { 'X-Api-Key': SECRET, Authorization: `Bearer ${SECRET}` }
  const shown = show(t, { routes: [{ path: '/a', auth: ['none'], requestHeaders: { set } }] })
  const { status, stdout, stderr } = await shown.text()
  assert.equal(status, 0, stderr)
  assert.match(stdout, /^routes\[0\]\.requestHeaders\.set\.X-Api-Key +gateway\.json +"\*+"$/m)
  assert.ok(!stdout.includes(SECRET), stdout)
  assert.ok(!JSON.stringify(await shown.json()).includes(SECRET))
})

test('a secret with quotes is hidden whole', async (t) => {
  const quoted = String.raw`a"b\"${SECRET}\\`
  const [first, second] = [`Basic ${quoted}`, `http://a/?token=${quoted}&whsec_${quoted}`]
  const set = { 'X-Api-Key': quoted, 'X-First': first, 'X-Second': second }
  const shown = show(t, { routes: [{ path: '/a', auth: ['none'], requestHeaders: { set } }] })
  const { status, stdout, stderr } = await shown.text()
  assert.equal(status, 0, stderr)
  assert.equal(stdout.split('requestHeaders.set').length, 4)
  assert.ok(!stdout.includes(SECRET), stdout)
  const { stderr: faults } = await show(t, { routes: [{ auth: 5, requestHeaders: { set } }] }).text()
  assert.ok(!faults.includes(SECRET), faults)
})

test('a faulty configuration is told with all its faults', async (t) => {
  const { status, stderr } = await show(t, { port: 'x', routes: 5 }).text()
  assert.equal(status, 1)
  assert.match(stderr, /\$\.port[\s\S]*\$\.routes/)
})
