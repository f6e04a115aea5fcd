import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Environment } from './environment.ts'
import type { Parsed } from './faults.ts'
import { describeFault } from './faults.ts'
import { loadSettings } from './load-settings.ts'
import { reusePortFaults } from './rules/reuse-port.ts'
import type { Settings } from './settings.ts'

const OPEN = [{ path: '/*', auth: ['none'] }]
const GUARDED = [{ path: '/*', auth: ['bearer'] }]

function load(file: object, env: Environment = {}): Parsed<Settings> {
  return loadSettings(env, () => JSON.stringify({ routes: GUARDED, ...file }))
}

function good(file: object, env?: Environment): Settings {
  const { value, faults } = load(file, env)
  assert.deepEqual(faults, undefined)
  assert.ok(value)
  return value
}

function faults(file: object, env?: Environment): string[] {
  return load(file, env).faults?.map(describeFault) ?? []
}

test('the file overrides the defaults, and the environment overrides the file', () => {
  const file = { port: 1, adminPort: 2, audience: 'of the file' }
  const settings = good(file, { GATEWAY_PORT: '3', GATEWAY_LIMITS: 'l.json' })
  assert.deepEqual([settings.port, settings.adminPort, settings.host], [3, 2, '127.0.0.1'])
  assert.equal(settings.audience, 'of the file')
  assert.deepEqual([settings.configFile, settings.limitsFile], ['config/gateway.json', 'l.json'])
})

test('the file that the environment names is the one that is read', () => {
  const read: string[] = []
  loadSettings({ GATEWAY_CONFIG: 'my.json' }, (file) => {
    read.push(file)
    return '{}'
  })
  assert.deepEqual(read, ['my.json'])
})

test('the keys come from the first http or https upstream, which the file or a variable names', () => {
  const jwks = '/.well-known/jwks.json'
  assert.equal(good({}).jwksUri, `http://127.0.0.1:3000${jwks}`)
  assert.equal(good({ upstream: ['unix:/a', 'https://b/', 'http://c'] }).jwksUri, `https://b${jwks}`)
  assert.equal(good({ upstream: 'http://a' }, { GATEWAY_UPSTREAM: 'http://b' }).jwksUri, `http://b${jwks}`)
  assert.equal(good({ jwksUri: 'http://k/1' }).jwksUri, 'http://k/1')
  assert.equal(good({ jwksUri: 'http://k/1' }, { GATEWAY_JWKS_URI: 'http://k/2' }).jwksUri, 'http://k/2')
})

test('the audience is the issuer + /api, wherever the issuer was named', () => {
  assert.equal(good({}).audience, 'http://localhost:8080/api')
  assert.equal(good({}, { GATEWAY_ISSUER: 'https://bank.example/' }).audience, 'https://bank.example/api')
  assert.equal(good({}, { GATEWAY_ISSUER: 'https://bank.example/' }).issuer, 'https://bank.example/')
  assert.equal(good({}, { GATEWAY_AUDIENCE: 'x' }).audience, 'x')
  assert.deepEqual(good({}, { GATEWAY_AUDIENCE: 'x, y' }).audience, ['x', 'y'])
})

test('clients know the gateway by the origin of the issuer, whoever names it, unless the file has publicUrls', () => {
  assert.deepEqual(good({}).dpop, { nonce: 'off', publicUrls: ['http://localhost:8080'] })
  const env = { GATEWAY_ISSUER: 'https://bank.example:443/auth' }
  assert.deepEqual(good({}, env).dpop.publicUrls, ['https://bank.example'])
  const dpop = { publicUrls: ['https://api.example/x'] }
  assert.deepEqual(good({ dpop }, env).dpop.publicUrls, dpop.publicUrls)
})

test('no further issuer may have the name or the keys of our own issuer, wherever it was named', () => {
  const issuers = [{ issuer: 'https://a.example', jwksUri: 'https://a.example/keys', audience: 'x' }]
  assert.deepEqual(faults({ issuers, issuer: 'https://a.example' }), [
    'config/gateway.json: $.issuer: the issuer https://a.example is also the one of $.issuers[0]',
  ])
  assert.match(
    faults({ issuers }, { GATEWAY_ISSUER: 'https://a.example' }).join(),
    /^environment: GATEWAY_ISSUER: the issuer https:\/\/a\.example is also/,
  )
  assert.match(
    faults({ issuers }, { GATEWAY_JWKS_URI: 'https://a.example/keys' }).join(),
    /^environment: GATEWAY_JWKS_URI: the jwksUri .* is also that of/,
  )
})

test('under the profile fapi our own keys come over https too, unless they never leave the machine', () => {
  const file = { profile: 'fapi' }
  assert.deepEqual(good(file).algorithms, ['ES256', 'PS256', 'EdDSA'])
  assert.match(
    faults({ ...file, upstream: 'http://service:3000' }).join(),
    /^config\/gateway\.json: \$\.jwksUri: must be https under the profile "fapi"/,
  )
  assert.match(
    faults(file, { GATEWAY_JWKS_URI: 'http://service/keys' }).join(),
    /^environment: GATEWAY_JWKS_URI: must be https/,
  )
})

test('with sockets as the only upstreams jwksUri must be set if a route accepts bearer tokens', () => {
  assert.match(faults({ upstream: 'unix:/a' })[0] ?? '', /^config\/gateway\.json: \$\.jwksUri: is missing: /)
  good({ upstream: 'unix:/a', jwksUri: 'http://k' })
  good({ upstream: 'unix:/a', routes: OPEN })
})

test('the public and the admin listener must not have one address', () => {
  const place = /^config\/gateway\.json: \$\.adminPort: .*port 9090/
  assert.match(faults({ port: 9090 })[0] ?? '', place)
  assert.match(faults({ port: 9090, host: '::' })[0] ?? '', place)
  assert.match(faults({ port: 9090, host: 'localhost' })[0] ?? '', place)
  assert.match(faults({}, { GATEWAY_PORT: '9090' })[0] ?? '', /^environment: GATEWAY_PORT: /)
  assert.match(faults({}, { GATEWAY_ADMIN_PORT: '8080' })[0] ?? '', /^environment: GATEWAY_ADMIN_PORT: /)
  good({ port: 9090, host: '10.0.0.1' })
  good({ port: 9090, host: '::1' })
  good({ port: 0, adminPort: 0 })
})

test('an admin listener that others reach has a token, unless the operator says that it is open', () => {
  const reason = /is reached by others .* GATEWAY_ADMIN_TOKEN_FILE, or set GATEWAY_ADMIN_OPEN=true$/
  for (const adminHost of ['0.0.0.0', '::', '10.0.0.1', 'gateway-1']) {
    assert.match(faults({ adminHost }).join(), reason)
    good({ adminHost, adminTokenFile: 't' })
    good({ adminHost, adminOpen: true })
    good({ adminHost }, { GATEWAY_ADMIN_OPEN: 'true' })
    const [fault = ''] = faults({}, { GATEWAY_ADMIN_HOST: adminHost })
    assert.match(fault, /^environment: GATEWAY_ADMIN_HOST: /)
  }
  assert.match(faults({ adminHost: '::' })[0] ?? '', /^config\/gateway\.json: \$\.adminHost: /)
  for (const adminHost of ['127.0.0.1', '127.1.2.3', '::1', 'localhost']) good({ adminHost })
})

test('the gateway must not be its own upstream', () => {
  const own = /the gateway's own listener/
  assert.match(faults({ upstream: 'http://127.0.0.1:8080' })[0] ?? '', own)
  assert.match(faults({ upstream: 'http://localhost:8080' })[0] ?? '', own)
  assert.match(faults({ upstream: 'http://localhost:8080', host: '0.0.0.0' })[0] ?? '', own)
  assert.match(faults({ upstream: 'http://[::1]:8080', host: '::' })[0] ?? '', own)
  assert.match(faults({ upstream: 'http://gateway', host: 'gateway', port: 80 })[0] ?? '', own)
  assert.match(faults({}, { GATEWAY_PORT: '3000' })[0] ?? '', /^environment: GATEWAY_PORT: the upstream/)
  assert.match(
    faults({}, { GATEWAY_UPSTREAM: 'http://127.0.0.1:8080' })[0] ?? '',
    /^environment: GATEWAY_UPSTREAM: /,
  )
  good({ upstream: 'http://10.0.0.1:8080', host: '0.0.0.0' })
  good({ upstream: 'https://localhost:8080' })
  good({ upstream: 'http://[::1]:8080' })
})

test('faults of the environment and of the file come at once', () => {
  assert.deepEqual(faults({ port: 'x' }, { GATEWAY_LOG_LEVEL: 'some' }), [
    'environment: GATEWAY_LOG_LEVEL: must be "trace", "debug", "info", "warn", "error", "fatal" or "silent", but is "some"',
    'config/gateway.json: $.port: must be a whole number, but is "x" (line 1)',
  ])
})

test('a file that cannot be read is a fault beside those of the environment', () => {
  const { faults: found } = loadSettings({ GATEWAY_CONFIG: '/nowhere/gateway.json', GATEWAY_PORT: 'x' })
  assert.deepEqual(
    found?.map(({ file, path }) => [file, path]),
    [
      ['environment', 'GATEWAY_PORT'],
      ['/nowhere/gateway.json', '$'],
    ],
  )
  assert.match(found?.[1]?.reason ?? '', /^cannot be read: ENOENT/)
})

test('clients.json is read if a route accepts machine clients or a variable names the file', () => {
  const route = (auth: string[]) => ({ routes: [{ path: '/*', auth }] })
  assert.equal(good(route(['bearer'])).clientsFile, undefined)
  assert.equal(good(route(['hmac'])).clientsFile, 'config/clients.json')
  assert.equal(good(route(['bearer', 'mtls'])).clientsFile, 'config/clients.json')
  assert.equal(good(route(['none']), { GATEWAY_CLIENTS: 'mine.json' }).clientsFile, 'mine.json')
})

test('a route that accepts nothing but certificates needs a listener that asks for them', () => {
  const file = { routes: [{ path: '/*', auth: ['mtls'] }] }
  const tls = { GATEWAY_TLS_PORT: '8443', GATEWAY_TLS_CERT: 'c.pem', GATEWAY_TLS_KEY: 'k.pem' }
  assert.match(faults(file)[0] ?? '', /\$\.routes\[0\]\.auth: accepts nothing but client certificates/)
  assert.match(faults(file, tls)[0] ?? '', /set tls\.clientCaFile/)
  assert.ok(good(file, { ...tls, GATEWAY_TLS_CLIENT_CA: 'ca.pem' }))
})

test('the fault of an operation that accepts nothing but certificates has its place in the document', () => {
  const document = {
    openapi: '3.1.0',
    security: [{ mtls: [] }],
    components: { securitySchemes: { mtls: { type: 'mutualTLS' } } },
    paths: { '/users/{id}': { get: { responses: {} }, put: { security: [], responses: {} } } },
  }
  const files: Record<string, object> = {
    'config/gateway.json': { openapi: 'api.json', routes: [{ path: '/own', auth: ['none'] }] },
    'api.json': document,
  }
  const { faults: found } = loadSettings({}, (file) => JSON.stringify(files[file]))
  assert.deepEqual(
    found?.map(({ file, path }) => [file, path]),
    [['api.json', '$.paths["/users/{id}"].get']],
  )
})

test('keys for the files or the seals of a trail are refused if it has none, whether file or variable says so', () => {
  const members = [
    { url: 'https://w.example', key: 'w.example/1+0c86045d+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB' },
  ]
  const asked = {
    witnesses: { quorum: 1, members },
    rotation: { maxAge: '1d' },
    retention: { keep: '1d', unsealed: true },
    secondSealKey: 'ml-dsa-44',
  }
  const output = ['rotation', 'retention', 'witnesses', 'secondSealKey'].map(
    (key) => `config/gateway.json: $.audit.${key}: is of no use on standard output: `,
  )
  const file = { audit: { ...asked, file: '-' } }
  assert.deepEqual(
    faults(file),
    output.map((fault) => `${fault}$.audit.file must be a file`),
  )
  const env = { GATEWAY_AUDIT_FILE: '-' }
  assert.deepEqual(
    faults({ audit: asked }, env),
    output.map((fault) => `${fault}GATEWAY_AUDIT_FILE must be a file`),
  )
  const unsealed = (where: string) =>
    ['witnesses', 'secondSealKey'].map(
      (key) => `config/gateway.json: $.audit.${key}: is of no use without seals: ${where} must be "on"`,
    )
  assert.deepEqual(faults({ audit: { ...asked, seals: 'off' } }), unsealed('$.audit.seals'))
  assert.deepEqual(faults({ audit: asked }, { GATEWAY_AUDIT_SEALS: 'off' }), unsealed('GATEWAY_AUDIT_SEALS'))
  assert.deepEqual(faults({ audit: asked }), [])
})

test('a trail on standard output cannot be synced, whether file or variable asks for it', () => {
  const reason = /^must be the name of a file: standard output cannot be synced$/
  const audit = { file: '-', durability: 'synced' }
  const [inFile] = load({ audit }).faults ?? []
  assert.equal(inFile?.path, '$.audit.file')
  assert.match(String(inFile?.reason), reason)
  const env = { GATEWAY_AUDIT_DURABILITY: 'synced' }
  const [inEnvironment] = load({ audit: { file: '-' } }, env).faults ?? []
  assert.equal(inEnvironment?.path, 'GATEWAY_AUDIT_DURABILITY')
  assert.equal(good({}, env).audit.durability, 'synced')
  assert.equal(good({ audit: { durability: 'buffered' } }).audit.durability, 'buffered')
})

test('the secret for the upstream is read from the named file, and the fault of a bad secret does not show it', () => {
  const config = JSON.stringify({ routes: OPEN, upstreamSecretFile: 'of-the-file' })
  const read = (files: Record<string, string>, env: Environment = {}) =>
    loadSettings(env, (file) => files[file] ?? (file === 'config/gateway.json' ? config : assert.fail(file)))
  const secret = 's'.repeat(40)
  assert.equal(read({ 'of-the-file': `${secret}\n` }).value?.upstreamSecret, secret)
  const env = { GATEWAY_UPSTREAM_SECRET_FILE: 'of-the-environment' }
  assert.equal(read({ 'of-the-environment': secret }, env).value?.upstreamSecret, secret)
  const refused = read({ 'of-the-file': 'too short' }).faults?.map(describeFault)
  assert.match(String(refused), /^of-the-file: \$: must hold one line of 32 to 256/)
  assert.doesNotMatch(String(refused), /too short/)
})

test('the settings of a shared store are read, and bad ones are refused with the reason', () => {
  assert.equal(good({}, { GATEWAY_STORE: 'memory' }).store, undefined)
  assert.deepEqual(good({}, { GATEWAY_STORE: 'redis://x' }).store?.addresses, [{ host: 'x', port: 6379 }])
  assert.match(faults({}, { GATEWAY_STORE: 'redis://a:b@x' }).join(), /must not hold a user or a password/)
  assert.match(faults({}, { GATEWAY_STORE_PREFIX: 'a' }).join(), /GATEWAY_STORE_PREFIX: has no effect/)
})

test('gateways share a port only with a shared store, a fixed number, and Linux', () => {
  const store = { GATEWAY_STORE: 'redis://127.0.0.1' }
  const env = { ...store, GATEWAY_REUSE_PORT: 'true' }
  const place = 'environment: GATEWAY_REUSE_PORT: '
  assert.equal(good({}).reusePort, false)
  assert.equal(good({}, { ...env, GATEWAY_REUSE_PORT: 'false' }).reusePort, false)
  assert.deepEqual(faults({}, { GATEWAY_REUSE_PORT: 'yes' }), [
    `${place}must be one of true, false, but is "yes"`,
  ])
  assert.deepEqual(reusePortFaults({ port: 8080, tls: undefined }, { env, platform: 'linux' }), [])
  const reasons = (
    listeners: Parameters<typeof reusePortFaults>[0],
    given: Partial<Parameters<typeof reusePortFaults>[1]> = {},
  ) => reusePortFaults(listeners, { env, platform: 'linux', ...given }).map(describeFault)
  const [alone, ...more] = reasons({ port: 8080, tls: undefined }, { env: { GATEWAY_REUSE_PORT: 'true' } })
  assert.deepEqual(more, [])
  assert.match(
    String(alone),
    /^environment: GATEWAY_REUSE_PORT: needs GATEWAY_STORE: .* each gateway would .* limit/,
  )
  assert.deepEqual(reasons({ port: 8080, tls: undefined }, { env: { ...env, GATEWAY_STORE: 'memory' } }), [
    alone,
  ])
  const numbered = (name: string) =>
    `${place}needs a ${name} other than 0: with 0 each gateway would listen on another port`
  assert.deepEqual(reasons({ port: 0, tls: undefined }), [numbered('GATEWAY_PORT')])
  assert.deepEqual(reasons({ port: 8080, tls: { port: 0 } }), [numbered('GATEWAY_TLS_PORT')])
  assert.match(reasons({ port: 1, tls: undefined }, { platform: 'darwin' })[0] ?? '', /needs Linux: darwin /)
})

test('a row trusts only issuers that the configuration has, whoever names them', () => {
  const row = (trustIssuers: string[], auth = ['bearer']) => ({
    routes: [{ path: '/*', auth, trustIssuers }],
  })
  good(row(['https://bank.example']), { GATEWAY_ISSUER: 'https://bank.example' })
  assert.match(
    faults(row(['https://bank.example'])).join(),
    /\$\.routes\[0\]\.trustIssuers: names no issuer .*"https:\/\/bank\.example"; the issuers are http:\/\/localhost:8080/s,
  )
  assert.match(
    faults(row(['http://localhost:8080'], ['none'])).join(),
    /\$\.routes\[0\]\.trustIssuers: needs "bearer" in "auth"/,
  )
})

test('a row asks for step-up authentication only where it accepts access tokens and proves every caller', () => {
  const row = (auth: string[], more: object) => ({ routes: [{ path: '/*', auth, ...more }] })
  good(row(['bearer', 'hmac'], { acr: ['sca'], maxAuthAge: '5m' }))
  assert.match(
    faults(row(['bearer', 'none'], { acr: ['sca'] })).join(),
    /\$\.routes\[0\]\.acr: must not be asked for where "auth" has "none"/,
  )
  assert.match(
    faults(row(['hmac'], { maxAuthAge: '5m' })).join(),
    /\$\.routes\[0\]\.maxAuthAge: must not be asked for where "auth" has no "bearer"/,
  )
})

test('a row compares authorization_details only where it accepts tokens and proves every caller', () => {
  const details = { type: 'payment', match: { '/a~1b/amount': '/amount' } }
  const row = (auth: string[], more: object = {}) => ({
    routes: [{ path: '/*', auth, authorizationDetails: details, ...more }],
  })
  assert.deepEqual(good(row(['bearer'])).routes[0]?.authorizationDetails, {
    type: 'payment',
    details: [{ pointer: '/a~1b/amount', steps: ['a/b', 'amount'] }],
    members: [{ pointer: '/amount', steps: ['amount'] }],
  })
  for (const [auth, more, reason] of [
    [['bearer', 'none'], {}, 'not be asked for where "auth" has "none"'],
    [['hmac'], {}, 'not be asked for where "auth" has no "bearer"'],
    [['bearer'], { mode: 'shadow' }, 'not be set where "mode" is "shadow"'],
  ] as const)
    assert.match(
      faults(row([...auth], more)).join(),
      new RegExp(`\\$\\.routes\\[0\\]\\.authorizationDetails: must ${reason}`),
    )
  for (const match of [{}, { amount: '/amount' }, { '/amount': 'amount' }, { '/a~2': '/a' }])
    assert.match(
      faults(row(['bearer'], { authorizationDetails: { ...details, match } })).join(),
      /\.match.*: must (?:be a JSON pointer|have JSON pointers|not be empty)/,
    )
})

test('a row asks a decider only about proved callers, over a private connection, and caches at most 5 minutes', () => {
  const url = 'https://decider.example/access/v1/evaluation'
  const row = (decision: object, more: object = {}) => ({
    routes: [{ path: '/a/{id}', auth: ['bearer', 'mtls'], decision: { url, ...decision }, ...more }],
  })
  const { parameters, ...terms } = good(row({ cache: '5m', body: ['/amount'] })).routes[0]?.decision ?? {}
  assert.deepEqual(terms, {
    key: `${url} 200 300000`,
    url,
    timeoutMs: 200,
    cacheMs: 300_000,
    members: [{ pointer: '/amount', steps: ['amount'] }],
  })
  assert.deepEqual(
    parameters?.map(({ name }) => name),
    ['id'],
  )
  for (const [decision, more, reason] of [
    [{}, { auth: ['bearer', 'none'] }, /\.decision: must not be set where "auth" has "none"/],
    [{}, { mode: 'shadow' }, /\.decision: must not be set where "mode" is "shadow"/],
    [{ cache: '6m' }, {}, /\.decision\.cache: must be at most "5m", but is "6m"/],
    [{ url: 'http://decider.example/' }, {}, /\.decision\.url: must be https, or on this machine/],
    [{ onFailure: 'allow' }, {}, /\.decision\.onFailure: must be "deny"/],
    [{ body: ['amount'] }, {}, /\.decision\.body\[0\]: must be a JSON pointer/],
  ] as const)
    assert.match(faults(row(decision, more)).join(), reason)
})

test('a row asks for a signature beside a credential that names a client', () => {
  const row = (auth: string[], signatures: object) => ({ routes: [{ path: '/*', auth, signatures }] })
  assert.equal(good(row(['bearer', 'mtls'], { request: 'required' })).routes[0]?.isSigned, true)
  for (const auth of [['bearer', 'none'], ['signature'], ['bearer', 'signature']])
    assert.match(
      faults(row(auth, { request: 'required' })).join(),
      /\$\.routes\[0\]\.signatures: must not be asked for where "auth" has "(?:none|signature)"/,
    )
  assert.match(faults(row(['bearer'], {})).join(), /\.signatures: must/)
})

test('a row has idempotency only where its callers are proved, and needs idempotencyKeyFile with a store', () => {
  const row = (more: object) => ({
    routes: [{ path: '/*', auth: ['bearer'], idempotency: {}, ...more }],
    upstreams: { calls: { targets: ['h2c://a:1'] }, plain: { targets: ['http://a:1'] } },
  })
  assert.deepEqual(good(row({ idempotency: { keep: '7d', onUnknown: 'forward' } })).routes[0]?.idempotency, {
    ...{ required: false, header: 'idempotency-key', maxKeyLength: 255, keepMs: 7 * 86_400_000 },
    ...{ maxResponseBytes: 65_536, maxRequestBytes: 1_048_576, maxKeys: 10_000, resolves: true },
    onStoreFailure: 'deny',
  })
  good(row({ upstream: 'plain' }))
  for (const [more, env, reason] of [
    [{ auth: ['bearer', 'none'] }, {}, /"auth" has "none"/],
    [{ mode: 'shadow' }, {}, /"mode" is "shadow"/],
    [{ upstream: 'calls' }, {}, /the group \("calls"\) speaks HTTP\/2/],
  ] as const) {
    const told = faults(row(more), env).join()
    assert.match(told, /\$\.routes\[0\]\.idempotency: must not be set/)
    assert.match(told, reason)
  }
  const store = { GATEWAY_STORE: 'redis://x' }
  assert.match(
    faults(row({}), store).join(),
    /\$\.idempotencyKeyFile: is missing: gateways that share a store/,
  )
  assert.match(
    faults(row({ idempotency: { maxResponseBytes: 65_537 } }), store).join(),
    /\$\.routes\[0\]\.idempotency\.maxResponseBytes: must be at most 65536 with GATEWAY_STORE, but is 65537/,
  )
  const named = JSON.stringify({ ...row({}), idempotencyKeyFile: 'short' })
  const short = loadSettings({}, (file) => (file === 'short' ? 'secret' : named)).faults?.map(describeFault)
  assert.match(String(short), /must hold lines of 32 to 256 visible ASCII characters: the key of idempotency/)
})

test('key files are read once, so that no key is in force that was not checked', () => {
  const config = JSON.stringify({
    routes: [{ path: '/*', auth: ['none'] }],
    maskKeyFile: 'mask',
    idempotencyKeyFile: 'keys',
  })
  const texts = new Map([
    ['mask', `${'m'.repeat(32)}\n`],
    ['keys', `${'k'.repeat(32)}\n`],
  ])
  const { value } = loadSettings({}, (file) => {
    const text = texts.get(file) ?? config
    if (texts.has(file)) texts.set(file, 'edited')
    return text
  })
  assert.equal(value?.maskKey, 'm'.repeat(32))
  assert.deepEqual(value?.idempotencyKeys, ['k'.repeat(32)])
})
