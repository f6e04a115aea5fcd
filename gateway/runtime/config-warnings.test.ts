import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseGatewayFile } from '../config/gateway-file.ts'
import { loadSettings } from '../config/load-settings.ts'
import { parseLimits } from '../limits/table/limits-file.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import {
  clientWarnings,
  fileWarnings,
  idleRowWarnings,
  limitWarnings,
  reusePortWarnings,
  settingsWarnings,
} from './config-warnings.ts'

function warnings(routes: object[], limits: object[]): readonly string[] {
  const gateway = parseGatewayFile(
    'g',
    JSON.stringify({ routes: routes.map((row) => ({ auth: ['none'], ...row })) }),
  )
  const rows = limits.map((row) => ({ limit: 1, window: '1s', purpose: 'x', ...row }))
  return idleRowWarnings(
    gateway.value!.routes,
    parseLimits('l', JSON.stringify({ limits: rows })).value!.rows,
  )
}

test('a limit that no route can reach is warned of, by path or by method', () => {
  const routes = [{ path: '/api/*', methods: ['GET'] }]
  assert.deepEqual(warnings(routes, [{ path: '/other' }]), [
    'the limit "other" (/other) has no effect: no route lets such a request through',
  ])
  assert.equal(warnings(routes, [{ path: '/api/a', methods: ['POST'] }]).length, 1)
})

test('a limit that a route can reach is not warned of', () => {
  const routes = [{ path: '/api/*', methods: ['GET'] }, { path: '/Login' }]
  assert.deepEqual(
    warnings(routes, [{ path: '/api/a', methods: ['HEAD'] }, { path: '/login' }, { path: '/*' }]),
    [],
  )
})

test('a route reaches a limit when a request can have a path of both', () => {
  const cases: [one: string, other: string, meet: boolean][] = [
    ['/a', '/a', true],
    ['/a', '/A/', true],
    ['/a', '/b', false],
    ['/a/b', '/a/*', true],
    ['/a', '/a/*', true],
    ['/ab', '/a/*', false],
    ['/a/*', '/a/b/*', true],
    ['/a/*', '/b/*', false],
    ['/*', '/', true],
    ['/*', '/anything/*', true],
  ]
  for (const [one, other, meet] of cases) {
    for (const [route, limit] of [
      [one, other],
      [other, one],
    ] as const) {
      assert.equal(warnings([{ path: route }], [{ path: limit }]).length, meet ? 0 : 1, `${route} ${limit}`)
    }
  }
})

test('of many limits without effect the first twenty are named, and how many more there are', () => {
  const limits = Array.from({ length: 500 }, (_, index) => ({ path: `/other/${index}` }))
  const found = warnings([{ path: '/api/*' }], limits)
  assert.equal(found.length, 21)
  assert.equal(found[20], '480 more limits without effect for the same reason')
})

test('rows that are too many to compare are warned of', () => {
  const rows = (count: number) => Array.from({ length: count }, (_, index) => ({ path: `/other/${index}` }))
  assert.deepEqual(warnings(rows(400), rows(300)), [
    '300 limits and 400 routes are too many to tell which limits have no effect',
  ])
})

test('an empty table is warned of', () => {
  assert.deepEqual(limitWarnings([], []), ['the limit table is empty: nothing is limited'])
})

test('GATEWAY_CONFIG without GATEWAY_LIMITS is warned of, unless both files are in one folder', () => {
  const found = fileWarnings({ GATEWAY_CONFIG: 'config/examples/any-service.json' })
  assert.equal(found.length, 1)
  assert.match(
    found[0] ?? '',
    /^GATEWAY_CONFIG is config\/examples\/any-service\.json and .* of config\/limits\.json/,
  )
  for (const env of [
    {},
    { GATEWAY_CONFIG: 'config/gateway.json' },
    { GATEWAY_CONFIG: './config/other.json' },
    { GATEWAY_CONFIG: 'config/examples/any-service.json', GATEWAY_LIMITS: 'config/limits.json' },
  ]) {
    assert.deepEqual(fileWarnings(env), [])
  }
})

test('every limit that comes with the gateway has a route', () => {
  const text = (name: string) => readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')
  const routes = parseGatewayFile('g', text('gateway.json')).value!.routes
  assert.deepEqual(idleRowWarnings(routes, parseLimits('l', text('limits.json')).value!.rows), [])
})

test('routes that accept bearer tokens are warned of while nobody has named their issuer', () => {
  const warningsOf = (auth: string, more = {}) =>
    settingsWarnings(
      parseGatewayFile('g', JSON.stringify({ ...more, routes: [{ path: '/a', auth: [auth] }] })).value!,
    )
  const [unnamed, ...others] = warningsOf('bearer')
  assert.match(
    String(unnamed),
    /^no issuer is set: .* of http:\/\/localhost:8080, which is the demonstration; set "issuer"/,
  )
  assert.deepEqual(others, [])
  assert.deepEqual(warningsOf('none'), [])
  for (const issuer of ['http://localhost:8080', 'https://id.example'])
    assert.deepEqual(warningsOf('bearer', { issuer }), [])
})

test('the environment names the issuer too', () => {
  const file = () => JSON.stringify({ routes: [{ path: '/a', auth: ['bearer'] }] })
  assert.equal(loadSettings({}, file).value?.issuerIsDefault, true)
  assert.equal(loadSettings({ GATEWAY_ISSUER: 'http://localhost:8080' }, file).value?.issuerIsDefault, false)
})

test('routes that refuse no caller, or everybody, are named', () => {
  const gateway = parseGatewayFile(
    'g',
    JSON.stringify({
      issuer: 'https://id.example',
      routes: [
        { path: '/a', auth: ['bearer'], mode: 'shadow' },
        { path: '/b', auth: ['none'], maintenance: { purpose: 'x' } },
        ...Array.from({ length: 22 }, (_, i) => ({ path: `/c${i}`, auth: ['bearer'], mode: 'shadow' })),
      ],
    }),
  )
  const [shadow, closed, ...rest] = settingsWarnings(gateway.value!)
  assert.match(String(shadow), /^rows in shadow mode.*: \/a, \/c0, .* and 3 more$/)
  assert.deepEqual([closed, rest], ['closed for maintenance: /b', []])
})

test('rows that go on alone without the store are named: a request with a key may be sent twice', () => {
  const idempotency = { onStoreFailure: 'local' }
  const text = JSON.stringify({
    issuer: 'https://id.example',
    idempotencyKeyFile: 'key',
    routes: [
      { path: '/a', auth: ['bearer'], idempotency },
      { path: '/b', auth: ['bearer'], idempotency: {} },
    ],
  })
  const told = (env: Record<string, string>) =>
    settingsWarnings(loadSettings(env, (file) => (file === 'key' ? 'k'.repeat(32) : text)).value!)
  assert.deepEqual(told({}), [])
  assert.match(
    String(told({ GATEWAY_STORE: 'redis://x' })),
    /^rows on which two gateways may both send the same request .*: \/a$/,
  )
})

test('a row whose methods change nothing is named: its "idempotency" has no effect', () => {
  const row = { auth: ['bearer'], idempotency: {} }
  const routes = [
    { path: '/a', methods: ['GET'], ...row },
    { path: '/b', methods: ['GET', 'PUT'], ...row },
    { path: '/c', ...row },
  ]
  const { value } = loadSettings({}, () => JSON.stringify({ issuer: 'https://id.example', routes }))
  assert.deepEqual(settingsWarnings(value!), [
    'rows whose "idempotency" has no effect, because no method of theirs changes anything: /a',
  ])
})

test('a shared port is warned of where the system resets connections that a gateway has not accepted when it ends', (t) => {
  const dir = temporaryDirectory(t)
  const file = join(dir, 'tcp_migrate_req')
  const shared = { reusePort: true }
  assert.match(reusePortWarnings(shared, file).join(), /tcp_migrate_req=1 \(Linux 5\.14\)/)
  writeFileSync(file, '0\n')
  assert.equal(reusePortWarnings(shared, file).length, 1)
  assert.deepEqual(reusePortWarnings({ reusePort: false }, file), [])
  writeFileSync(file, '1\n')
  assert.deepEqual(reusePortWarnings(shared, file), [])
})

test('rows that sign are named where no row publishes the key', () => {
  const signed = { path: '/a', auth: ['none'], signatures: { response: true } }
  const published = { path: '/.well-known/gateway-jwks.json', auth: ['none'] }
  const told = (...routes: object[]) =>
    settingsWarnings(parseGatewayFile('g', JSON.stringify({ routes })).value!)
  assert.deepEqual(told(signed, { ...signed, path: '/b', signatures: { upstream: true } }), [
    'rows sign with a key that nobody can fetch, because no row for /.well-known/gateway-jwks.json publishes it: /a, /b',
  ])
  assert.deepEqual(told(signed, published), [])
  assert.deepEqual(told({ path: '/a', auth: ['none'] }), [])
})

test('a rewrite that leads to what another row keeps for other callers is warned of', () => {
  const told = (routes: object[]) => {
    const { value, faults } = parseGatewayFile('g', JSON.stringify({ routes }))
    assert.deepEqual(faults, undefined)
    return settingsWarnings(value!).filter((text) => text.includes('is sent on as'))
  }
  const admin = { path: '/api/admin/*', auth: ['bearer'] }
  const open = { path: '/open/*', auth: ['none'] }
  const [warning = ''] = told([admin, { ...open, rewrite: { prefix: '/api' } }])
  assert.match(
    warning,
    /^\/open\/\* is sent on as \/api\/\*, so its callers reach what \/api\/admin\/\* serves to other callers: /,
  )
  const user = { path: '/u/{id}', auth: ['none'] }
  assert.equal(told([admin, { ...user, rewrite: { path: '/api/{id}/keys' } }]).length, 1)
  assert.deepEqual(told([admin, { ...user, rewrite: { path: '/api/users/{id}' } }]), [])
  assert.deepEqual(told([admin, { ...open, auth: ['bearer'], rewrite: { prefix: '/api' } }]), [])
  assert.deepEqual(
    told([
      { path: '/*', auth: ['bearer'] },
      { ...open, rewrite: { prefix: '/x' } },
    ]),
    [],
  )
  assert.deepEqual(told([admin, open]), [])
})

test('a client whose webhooks are always refused is warned of: it has no keyId, and no row names it', () => {
  const hmac = { secrets: [{ env: 'A' }] }
  const rows = [
    { id: 'a', scopes: [], hmac },
    { id: 'b', scopes: [], hmac: { ...hmac, keyId: 'key_b' } },
    { id: 'c', scopes: [], mtls: { sanDns: 'c.example' } },
    { id: 'd', scopes: [], hmac },
  ]
  assert.deepEqual(clientWarnings([{ webhookClient: 'd' }, { webhookClient: undefined }], rows), [
    'webhooks of some clients are always refused, because "hmac" has no "keyId" and no row names the client by "webhookClient": "a"',
  ])
  assert.deepEqual(clientWarnings([{ webhookClient: 'd' }, { webhookClient: 'a' }], rows), [])
})

test('a row that does not mask what another row masks is warned of, with both rows', () => {
  const told = (...routes: object[]) => {
    const { value, faults } = parseGatewayFile(
      'g',
      JSON.stringify({ routes: routes.map((row) => ({ auth: ['none'], ...row })) }),
    )
    assert.deepEqual(faults, undefined)
    return settingsWarnings(value!).flatMap(
      (text) => / does not mask what (.+) masks?: /.exec(text)?.[0] ?? [],
    )
  }
  const iban = { path: '/accounts/{iban}', methods: ['GET'], mask: ['iban'] }
  const day = { path: '/accounts/{iban}/days/{day}', mask: ['iban'] }
  assert.deepEqual(told(iban, { path: '/accounts/*' }), [' does not mask what /accounts/{iban} masks: '])
  assert.deepEqual(told(iban, day, { path: '/*' }), [
    ' does not mask what /accounts/{iban}, /accounts/{iban}/days/{day} mask: ',
  ])
  const beside: [row: object, isTold: boolean][] = [
    [{ path: '/accounts/{iban}', methods: ['POST'] }, true],
    [{ path: '/accounts/{id}/secret' }, true],
    [{ path: '/accounts/{day}/days/{iban}', mask: ['iban'] }, true],
    [{ path: '/accounts/{id}/secret', mask: ['id'] }, false],
    [{ path: '/accounts/list/*' }, false],
    [{ path: '/accounts/list' }, false],
    [{ path: '/accounts' }, false],
    [{ path: '/open/*' }, false],
    [{ path: '/open/{iban}' }, false],
  ]
  for (const [row, isTold] of beside)
    assert.equal(told(iban, row).length, Number(isTold), JSON.stringify(row))
  assert.deepEqual(told({ ...iban, mask: undefined }, { path: '/accounts/*' }), [])
})
