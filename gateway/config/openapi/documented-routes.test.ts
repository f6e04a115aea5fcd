import assert from 'node:assert/strict'
import { test } from 'node:test'
import { webhookClientFaults } from '../clients/clients-file.ts'
import { parseGatewayFile } from '../gateway-file.ts'
import { loadSettings } from '../load-settings.ts'

const operation = { responses: { 200: { description: 'x' } }, security: [{ user: ['read'] }] }
const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'x', version: '1' },
  servers: [{ url: '/v1' }],
  components: { securitySchemes: { user: { type: 'http', scheme: 'bearer' } } },
  paths: {
    '/users': { get: operation, post: operation },
    '/users/{id}': { get: operation, delete: operation },
    '/other': { get: operation },
  },
}

function parse(rows: unknown, routes: readonly object[] = [], openapi: object = {}) {
  const text = JSON.stringify({ openapi: { file: 'api.json', rows, ...openapi }, routes })
  return parseGatewayFile('g', text, () => JSON.stringify(DOCUMENT))
}

function routeOf(rows: readonly object[], path: string, method: string) {
  const { value, faults } = parse(rows)
  assert.deepEqual(faults, undefined)
  return value!.routes.find((row) => row.path === path && row.methods?.has(method))
}

function faultOf(rows: unknown, routes: readonly object[] = []): string {
  const { faults = [] } = parse(rows, routes)
  assert.equal(faults.length, 1, JSON.stringify(faults))
  assert.equal(faults[0]!.file, 'g')
  return `${faults[0]!.path}: ${faults[0]!.reason}`
}

test('keys are laid over the operations that a row fits, and over no other, and the callers stay the same', () => {
  const rows = [
    { path: '/v1/users/{id}', methods: ['GET'], timeoutMs: 7, deprecated: '2026-01-01', mode: 'shadow' },
  ]
  const laid = routeOf(rows, '/v1/users/{id}', 'GET')
  assert.deepEqual([laid?.timeoutMs, laid?.isShadow], [7, true])
  assert.match(laid?.responseLines ?? '', /^Deprecation: @1767225600\r$/m)
  assert.deepEqual(
    [laid?.scopes, laid?.auth, laid?.methods],
    [[['read']], new Set(['bearer']), new Set(['GET', 'HEAD'])],
  )
  for (const [path, method] of [
    ['/v1/users/{id}', 'DELETE'],
    ['/v1/users', 'GET'],
  ] as const) {
    const other = routeOf(rows, path, method)
    assert.deepEqual([other?.timeoutMs, other?.isShadow, other?.sending], [undefined, false, undefined])
  }
})

test('the leniency of the file covers what operations and its own rows let through', () => {
  const override = { requestHeaders: { allow: ['X-HTTP-Method'] } }
  const rows = [
    { path: '/v1/users', underscoreNames: true, ...override },
    { path: '/v1/users/{id}', encodedSlashes: true, rawPath: true },
  ]
  const own = [{ path: '/own', auth: ['none'], pathParameters: true }]
  assert.deepEqual(parse(rows, own).value?.leniency, {
    encodedSlashes: true,
    pathParameters: true,
    underscoreNames: true,
    rawPath: true,
    methodOverrides: new Set(['x-http-method']),
  })
})

test('a prefix is for all operations below it, and each key of the more specific row counts', () => {
  const rows = [
    { path: '/v1/users/{id}', timeoutMs: 3 },
    { path: '/*', timeoutMs: 1, maxBodyBytes: 9 },
    { path: '/v1/users/*', timeoutMs: 2, upstreamHost: 'users.internal' },
  ]
  const of = (path: string) => {
    const { timeoutMs, maxBodyBytes, sending } = routeOf(rows, path, 'GET')!
    return [timeoutMs, maxBodyBytes, sending?.host]
  }
  assert.deepEqual(of('/v1/users/{id}'), [3, 9, 'users.internal'])
  assert.deepEqual(of('/v1/users'), [1, 9, undefined])
})

test('a rewritten prefix holds for each operation below it', () => {
  for (const [prefix, first] of [
    ['/internal', '/internal/users/'],
    ['/', '/users/'],
  ] as const) {
    const { sending } = routeOf([{ path: '/v1/*', rewrite: { prefix } }], '/v1/users/{id}', 'GET')!
    const { parts } = sending!.rewrite as { parts: readonly (string | { name: string })[] }
    assert.deepEqual(
      parts.map((part) => (typeof part === 'string' ? part : part.name)).join(''),
      `${first}id`,
    )
  }
})

test('an operation with rewrite of one row and rawPath of another is a fault', () => {
  const rows = [
    { path: '/v1/*', rewrite: { prefix: '/' } },
    { path: '/v1/users/{id}', rawPath: true },
  ]
  assert.match(
    faultOf(rows),
    /^\$\.openapi\.rows\[1\]\.rawPath: must not be true .* another row gives "rewrite".*; set "rawPath" to false in the more specific row$/,
  )
  assert.deepEqual(parse([rows[0], { path: '/v1/users/{id}', rawPath: false }]).faults, undefined)
  const raw = { path: '/v1/*', rawPath: true }
  const rewritten = { path: '/v1/users/{id}', rewrite: { path: '/users/{id}' } }
  assert.match(faultOf([raw, rewritten]), /^\$\.openapi\.rows\[0\]\.rawPath: must not be true/)
  assert.deepEqual(parse([raw, { ...rewritten, rawPath: false }]).faults, undefined)
})

test('an operation is a fault when its sunset of one row comes before its deprecation of another', () => {
  const rows = [
    { path: '/v1/*', deprecated: '2027-06-01' },
    { path: '/v1/users/{id}', sunset: '2027-01-01' },
  ]
  assert.match(
    faultOf(rows),
    /^\$\.openapi\.rows\[1\]\.sunset: must not be before "deprecated" \(2027-06-01\), but is "2027-01-01"/,
  )
  assert.deepEqual(parse([rows[0], { ...rows[1], deprecated: '2026-01-01' }]).faults, undefined)
})

test('requests of an operation are not validated where a row says so', () => {
  const { value } = parse([{ path: '/v1/users', validateRequests: false }], [], { validateRequests: true })
  const validated = value!.routes.map(({ path, operations }) => [path, operations !== undefined])
  assert.deepEqual(new Map(validated as [string, boolean][]).get('/v1/users'), false)
  assert.deepEqual(new Map(validated as [string, boolean][]).get('/v1/other'), true)
})

test('a row that fits no operation is a fault that names what was meant', () => {
  assert.match(
    faultOf([{ path: '/v1/usres', timeoutMs: 1 }]),
    /^\$\.openapi\.rows\[0\]\.path: fits no operation.*did you mean "\/v1\/users"\?$/,
  )
  assert.match(faultOf([{ path: '/v1/users/{user}' }]), /did you mean "\/v1\/users\/\{id\}"\?$/)
  assert.match(faultOf([{ path: '/users' }]), /did you mean "\/v1\/users"\?$/)
  assert.match(
    faultOf([{ path: '/v1/users', methods: ['PUT'] }]),
    /: "\/v1\/users" has GET, POST there, not PUT$/,
  )
  assert.match(faultOf([{ path: '/v2/*' }]), /fits no operation/)
  const own = [{ path: '/v1/other', auth: ['none'] }]
  assert.match(faultOf([{ path: '/v1/other', timeoutMs: 1 }], own), /rows of \$\.routes take the place/)
})

test('of many rows that fit no operation, only the first are compared with every path', () => {
  const rows = Array.from({ length: 12 }, (_, index) => ({ path: `/v1/user${index}` }))
  const hinted = parse(rows).faults?.map(({ reason }) => reason.includes('did you mean "/v1/users"?'))
  assert.deepEqual(hinted, [...Array(10).fill(true), false, false])
})

test('a name to mask that no operation of a row has is a fault', () => {
  assert.match(
    faultOf([{ path: '/v1/*', mask: ['id', 'ids'] }]),
    /^\$\.openapi\.rows\[0\]\.mask\[1\]: must be a parameter of an operation that "\/v1\/\*" fits, but is "ids"; did you mean "id"\?$/,
  )
  assert.match(faultOf([{ path: '/v1/users/{id}', mask: ['x'] }]), /mask\[0\]: must be a parameter/)
  assert.deepEqual(routeOf([{ path: '/v1/*', mask: ['id'] }], '/v1/users/{id}', 'GET')?.mask, ['id'])
  assert.match(
    faultOf([{ path: '/v1/*', methods: ['POST'], mask: ['id'] }]),
    /mask\[0\]: must be a parameter/,
  )
})

test('a fault in a key laid over operations is told once, with the row that the key is from', () => {
  const rows = [
    { path: '/v1/users', timeoutMs: 1 },
    {
      path: '/v1/*',
      trustIssuers: ['https://bank.example'],
      webhookClient: 'nobody',
      maxAuthAge: '5m',
    },
  ]
  const text = JSON.stringify({ openapi: { file: 'api.json', rows }, routes: [] })
  const open = { ...DOCUMENT, paths: { '/users': { get: { ...operation, security: [] } } } }
  const placesIn = (document: object) =>
    loadSettings({}, (file) => (file === 'api.json' ? JSON.stringify(document) : text)).faults?.map(
      ({ path, reason }) => `${path}: ${reason.slice(0, 15)}`,
    )
  assert.deepEqual(placesIn(DOCUMENT), [
    '$.openapi.rows[1].trustIssuers: names no issuer',
    '$.openapi.rows[1].webhookClient: needs "hmac" in',
  ])
  assert.deepEqual(placesIn(open)?.slice(2), ['$.openapi.rows[1].maxAuthAge: must not be ask'])
  const issuer = 'https://login.example'
  const introspection = { url: `${issuer}/i`, clientId: 'g', clientSecretFile: 'secret' }
  const asked = { introspection, issuers: [{ issuer, jwksUri: `${issuer}/k`, audience: 'a', introspection }] }
  const idempotency = { maxResponseBytes: 100_000 }
  const laid = [{ path: '/v1/users', idempotency, trustIssuers: ['http://localhost:8080', issuer] }]
  const file = JSON.stringify({ openapi: { file: 'api.json', rows: laid }, routes: [], ...asked })
  const texts: Record<string, string> = { 'api.json': JSON.stringify(DOCUMENT), secret: 'x'.repeat(40) }
  const { faults } = loadSettings({ GATEWAY_STORE: 'redis://a' }, (name) => texts[name] ?? file)
  assert.deepEqual(
    faults?.map((fault) => fault.path),
    [
      '$.openapi.rows[0].idempotency.maxResponseBytes',
      '$.idempotencyKeyFile',
      '$.openapi.rows[0].trustIssuers',
      '$.paths["/users/{id}"].get',
      '$.paths["/users/{id}"].delete',
      '$.paths["/other"].get',
    ],
  )
  const { value } = parse(rows)
  assert.deepEqual(
    webhookClientFaults('g', value!.routes, { byWebhookClient: new Map() }).map(({ path }) => path),
    ['$.openapi.rows[1].webhookClient'],
  )
})

test('auth, scopes, and other keys, paths and values that no row may have are faults with their place', () => {
  assert.match(
    faultOf([{ path: '/v1/users', auth: ['none'] }]),
    /^\$\.openapi\.rows\[0\]\.auth: is not a known key/,
  )
  assert.match(
    faultOf([{ path: '/v1/users', scopes: [] }]),
    /^\$\.openapi\.rows\[0\]\.scopes: is not a known key/,
  )
  assert.match(faultOf([{ timeoutMs: 1 }]), /^\$\.openapi\.rows\[0\]\.path: is missing/)
  assert.match(
    faultOf([{ path: '/v1/users', upstream: 'nowhere' }]),
    /^\$\.openapi\.rows\[0\]\.upstream: must name a group/,
  )
  assert.match(
    faultOf([{ path: '/v1/users', rewrite: { prefix: '/x' } }]),
    /^\$\.openapi\.rows\[0\]\.rewrite: must have "path"/,
  )
  assert.match(
    faultOf([{ path: '/v1/users', requestHeaders: { set: { 'X-Auth-Subject': 'root' } } }]),
    /^\$\.openapi\.rows\[0\]\.requestHeaders\.set\.X-Auth-Subject: must not name/,
  )
  assert.match(
    faultOf([{ path: '/v1/users' }, { path: '/v1/users' }]),
    /^\$\.openapi\.rows\[1\]\.path: "\/v1\/users" is also the path of/,
  )
  assert.match(faultOf('x'), /^\$\.openapi\.rows: must be an array/)
})
