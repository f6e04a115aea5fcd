import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { responseLines } from '../edge/rules/policy/response-policy.ts'
import { type GatewayFile, parseGatewayFile } from './gateway-file.ts'
import { RFC9068, tokenDialect } from './issuers/token-dialects.ts'

/** The policy of a route that sets none. */
const NO_POLICY = {
  stepUp: undefined,
  authorizationDetails: undefined,
  decision: undefined,
  mask: undefined,
  trustIssuers: undefined,
  webhookClient: undefined,
  idempotency: undefined,
  screening: undefined,
  isSigned: false,
  signsResponses: false,
  signsRequests: false,
  isShadow: false,
  operations: undefined,
  documentedAt: undefined,
  laidAt: undefined,
  leniency: undefined,
  cors: undefined,
  sending: undefined,
  forwarded: undefined,
  responseLines: responseLines({}),
}
const ROUTES = [{ path: '/*', auth: ['none'] }]

function good(settings: object): GatewayFile {
  const { value, faults } = parseGatewayFile('gateway.json', JSON.stringify(settings))
  assert.deepEqual(faults, undefined)
  assert.ok(value)
  return value
}

/** The faults of a file, as `path: reason` without the line. */
function faults(settings: unknown): string[] {
  const parsed = parseGatewayFile('gateway.json', JSON.stringify(settings))
  assert.ok(parsed.faults, 'no fault was found')
  assert.ok(parsed.faults.every(({ file }) => file === 'gateway.json'))
  return parsed.faults.map(({ path, reason }) => `${path}: ${reason}`)
}

/** The only fault of a file that is good but for these keys. */
function only(settings: object): string {
  const [first, ...more] = faults({ routes: ROUTES, ...settings })
  assert.deepEqual(more, [])
  return first ?? ''
}

function onlyOfRoutes(...routes: object[]): string {
  return only({ routes })
}

test('a file with nothing but a route gets every default', () => {
  const { trustedProxies, clientCertProxies, ...rest } = good({ routes: ROUTES })
  assert.deepEqual([trustedProxies, clientCertProxies], [undefined, undefined])
  assert.deepEqual(rest, {
    upstream: ['http://127.0.0.1:3000'],
    upstreams: {},
    openapi: undefined,
    host: '127.0.0.1',
    port: 8080,
    adminHost: '127.0.0.1',
    adminPort: 9090,
    adminOpen: false,
    adminNames: [],
    issuer: 'http://localhost:8080',
    algorithms: ['ES256', 'PS256', 'EdDSA', 'RS256'],
    profile: undefined,
    tokens: RFC9068,
    clockToleranceMs: 10_000,
    issuers: [],
    issuerIsDefault: true,
    jwksMaxStaleMs: 86_400_000,
    dpop: { nonce: 'off' },
    authThrottle: { failures: 20, windowMs: 60_000 },
    addressRate: undefined,
    audit: {
      file: 'data/audit.ndjson',
      durability: 'written',
      seals: 'on',
    },
    dataDir: 'data',
    limits: { onJournalFailure: 'unready' },
    onStoreFailure: { deadlineMs: 25, replays: 'deny', revocations: 'local' },
    logLevel: 'info',
    allowedFieldNames: new Set(),
    http2: 'tls',
    via: false,
    interactionId: false,
    maxHeaderBytes: 16_384,
    maxHeaderFields: 100,
    maxInFlight: 1024,
    addresses: undefined,
    leniency: undefined,
    responseLines: responseLines({}),
    maxTunnels: 1024,
    timeouts: {
      connectMs: 2000,
      headersMs: 30_000,
      bodyIdleMs: 300_000,
      handshakeMs: 5000,
      requestHeadersMs: 10_000,
      bodyGraceMs: 20_000,
      minBodyBytesPerSecond: 500,
      keepAliveMs: 65_000,
      drainMs: 6000,
      drainGraceMs: 2000,
    },
    routes: [
      {
        path: '/*',
        methods: undefined,
        auth: new Set(['none']),
        scopes: [],
        upstream: 'default',
        timeoutMs: undefined,
        idleTimeoutMs: 300_000,
        maxBodyBytes: 1_048_576,
        clientCert: false,
        ...NO_POLICY,
      },
    ],
  })
})

test('every key of the file arrives, and a route has its own bounds before those of the file', () => {
  const file = good({
    $schema: './schemas/gateway.schema.json',
    upstream: ['http://a:1/', 'unix:/run/b.sock'],
    host: '::',
    port: 1,
    tls: { port: 3, keyFile: 'k.pem' },
    adminHost: '10.0.0.1',
    adminPort: 2,
    adminTokenFile: '/run/secrets/admin',
    adminOpen: true,
    adminNames: ['gw.example'],
    issuer: 'https://bank.example',
    jwksUri: 'https://bank.example/keys',
    audience: 'api',
    algorithms: ['PS256'],
    profile: 'fapi',
    tokens: { require: { acr: ['1', 2] }, maxChars: 16_384 },
    issuers: [
      { issuer: 'https://a.example', jwksUri: 'http://a.example/keys', audience: 'x' },
      {
        issuer: 'https://b.example',
        jwksUri: 'https://b.example/keys',
        audience: 'y',
        profile: 'fapi',
        tokens: 'rfc9068',
        clockTolerance: '1m',
      },
      {
        issuer: 'https://c.example',
        jwksUri: 'https://c.example/k',
        audience: ['z', 'zz'],
        algorithms: ['EdDSA'],
        tokens: { preset: 'okta', scopeClaims: ['scp', 'groups'], maxLifetime: '30h' },
        scopes: ['a:b', 'c'],
      },
    ],
    jwksMaxStaleMs: 60000,
    dpop: { nonce: 'required', publicUrls: ['https://bank.example', 'http://localhost:8080/api/'] },
    authThrottle: { failures: 0, window: '24h' },
    addressRate: { requests: 1000, window: '10s' },
    audit: {
      file: '-',
      durability: 'buffered',
      seals: 'off',
      sealKeyFile: '/run/secrets/seal.pem',
      secondSealKey: 'ml-dsa-44',
      origin: 'audit.example.com/1',
    },
    upstreamSecretFile: '/run/secrets/gateway',
    limits: { onJournalFailure: 'degraded' },
    onStoreFailure: { deadlineMs: 50, replays: 'local', revocations: 'deny' },
    dataDir: '/var/lib/x',
    logLevel: 'warn',
    trustedProxies: ['10.0.0.0/8'],
    clientCertProxies: ['fd00::1'],
    allowedFieldNames: ['My_Header'],
    http2: true,
    via: true,
    interactionId: false,
    maxHeaderBytes: 65_536,
    maxHeaderFields: 256,
    maxInFlight: 3,
    maxTunnels: 8,
    maxBodyBytes: 4,
    timeouts: { totalMs: 5000, drainGraceMs: 0 },
    routes: [
      {
        path: '/a',
        methods: ['GET', 'POST'],
        auth: ['bearer'],
        scopes: ['x:y', 'z'],
        acr: ['sca'],
        maxAuthAge: '5m',
        timeoutMs: 6,
        idleTimeoutMs: 7,
        maxBodyBytes: 0,
        clientCert: true,
      },
      { path: '/b', auth: ['none', 'bearer'], scopes: [] },
    ],
  })
  const { trustedProxies, clientCertProxies, timeouts, ...rest } = file
  assert.equal(clientCertProxies?.check('fd00::1', 'ipv6'), true)
  assert.equal(trustedProxies?.check('10.9.9.9'), true)
  assert.deepEqual([timeouts.totalMs, timeouts.headersMs], [5000, 30_000])
  assert.deepEqual(rest, {
    openapi: undefined,
    upstream: ['http://a:1', 'unix:/run/b.sock'],
    upstreams: {},
    host: '::',
    port: 1,
    tls: { port: 3, keyFile: 'k.pem' },
    adminHost: '10.0.0.1',
    adminPort: 2,
    adminTokenFile: '/run/secrets/admin',
    adminOpen: true,
    adminNames: ['gw.example'],
    issuer: 'https://bank.example',
    jwksUri: 'https://bank.example/keys',
    audience: 'api',
    algorithms: ['PS256'],
    profile: 'fapi',
    tokens: { ...RFC9068, require: [{ claim: 'acr', values: ['1', 2] }], maxChars: 16_384 },
    clockToleranceMs: 10_000,
    issuerIsDefault: false,
    issuers: [
      {
        issuer: 'https://a.example',
        jwksUri: 'http://a.example/keys',
        audience: 'x',
        scopes: [],
        algorithms: ['ES256', 'PS256', 'EdDSA', 'RS256'],
        profile: undefined,
        tokens: RFC9068,
        clockToleranceMs: 10_000,
      },
      {
        issuer: 'https://b.example',
        jwksUri: 'https://b.example/keys',
        audience: 'y',
        scopes: [],
        algorithms: ['ES256', 'PS256', 'EdDSA'],
        profile: 'fapi',
        tokens: RFC9068,
        clockToleranceMs: 60_000,
      },
      {
        issuer: 'https://c.example',
        jwksUri: 'https://c.example/k',
        audience: ['z', 'zz'],
        scopes: ['a:b', 'c'],
        algorithms: ['EdDSA'],
        profile: undefined,
        tokens: { ...tokenDialect('okta'), scopeClaims: ['scp', 'groups'], maxLifetimeMs: 108_000_000 },
        clockToleranceMs: 10_000,
      },
    ],
    jwksMaxStaleMs: 60_000,
    dpop: { nonce: 'required', publicUrls: ['https://bank.example', 'http://localhost:8080/api/'] },
    authThrottle: { failures: 0, windowMs: 86_400_000 },
    addressRate: { requests: 1000, windowMs: 10_000 },
    audit: {
      file: '-',
      durability: 'buffered',
      seals: 'off',
      sealKeyFile: '/run/secrets/seal.pem',
      secondSealKey: 'ml-dsa-44',
      origin: 'audit.example.com/1',
    },
    upstreamSecretFile: '/run/secrets/gateway',
    dataDir: '/var/lib/x',
    limits: { onJournalFailure: 'degraded' },
    onStoreFailure: { deadlineMs: 50, replays: 'local', revocations: 'deny' },
    logLevel: 'warn',
    allowedFieldNames: new Set(['my_header']),
    http2: true,
    via: true,
    interactionId: false,
    maxHeaderBytes: 65_536,
    maxHeaderFields: 256,
    maxInFlight: 3,
    maxTunnels: 8,
    addresses: undefined,
    leniency: undefined,
    responseLines: responseLines({}),
    routes: [
      {
        path: '/a',
        methods: new Set(['GET', 'HEAD', 'POST']),
        auth: new Set(['bearer']),
        scopes: [['x:y', 'z']],
        upstream: 'default',
        timeoutMs: 6,
        idleTimeoutMs: 7,
        maxBodyBytes: 0,
        clientCert: true,
        ...NO_POLICY,
        stepUp: { acr: ['sca'], maxAgeMs: 300_000 },
      },
      {
        path: '/b',
        methods: undefined,
        auth: new Set(['none', 'bearer']),
        scopes: [],
        upstream: 'default',
        timeoutMs: 5000,
        idleTimeoutMs: 300_000,
        maxBodyBytes: 4,
        clientCert: false,
        ...NO_POLICY,
      },
    ],
  })
})

test('one reading does not touch the defaults of the next', () => {
  const first = good({ routes: ROUTES })
  assert.notEqual(first.timeouts, good({ routes: ROUTES }).timeouts)
})

test('routes are required and there is at least one', () => {
  assert.deepEqual(faults({}), ['$.routes: is missing'])
  assert.deepEqual(faults({ routes: [] }), ['$.routes: must not be empty'])
  assert.deepEqual(faults({ routes: {} }), ['$.routes: must be an array, but is an object'])
})

test('each key refuses what is not of its kind, by its path', () => {
  const cases: [settings: object, sentence: RegExp][] = [
    [{ upstream: '' }, /^\$\.upstream: must not be empty/],
    [{ upstream: [] }, /^\$\.upstream: must not be empty/],
    [{ upstream: 5 }, /^\$\.upstream: must be text or an array, but is 5/],
    [{ upstream: 'localhost:3000' }, /^\$\.upstream: must be http:\/\/host:port/],
    [{ upstream: ['http://a', 'b'] }, /^\$\.upstream\[1\]: must be http:\/\/host:port/],
    [{ upstream: ['http://a', 'http://a/'] }, /^\$\.upstream\[1\]: must not be "http:\/\/a" a second time/],
    [{ host: '[::1]' }, /^\$\.host: must be an IP address/],
    [{ adminHost: 'a:1' }, /^\$\.adminHost: must be an IP address/],
    [{ port: 65536 }, /^\$\.port: must be between 0 and 65535, but is 65536/],
    [{ port: '8080' }, /^\$\.port: must be a whole number, but is "8080"/],
    [{ adminPort: -1 }, /^\$\.adminPort: must be between 0 and 65535/],
    [{ issuer: 'bank' }, /^\$\.issuer: must be an http or https URL/],
    [{ issuer: 'https://a/?b' }, /^\$\.issuer: must be a URL without a query/],
    [{ issuer: 5 }, /^\$\.issuer: must be text, but is 5/],
    [{ jwksUri: 'keys.json' }, /^\$\.jwksUri: must be an http or https URL/],
    [{ audience: '' }, /^\$\.audience: must not be empty/],
    [{ algorithms: [] }, /^\$\.algorithms: must not be empty/],
    [{ algorithms: ['HS256'] }, /^\$\.algorithms\[0\]: must be .* but is "HS256"/],
    [{ profile: 'fapi2' }, /^\$\.profile: must be "fapi", but is "fapi2"/],
    [{ dpop: { nonce: true } }, /^\$\.dpop\.nonce: must be "off" or "required", but is true/],
    [{ dpop: { nonces: 'off' } }, /^\$\.dpop\.nonces: is not a known key; did you mean "nonce"\?/],
    [{ dpop: { publicUrls: [] } }, /^\$\.dpop\.publicUrls: must not be empty/],
    [{ dpop: { publicUrls: ['a.example'] } }, /^\$\.dpop\.publicUrls\[0\]: must be an http or https URL/],
    [{ dpop: { publicUrls: ['http://a', 'http://a?b'] } }, /^\$\.dpop\.publicUrls\[1\]: .* without a query/],
    [
      { dpop: { publicUrls: ['http://a', 'http://a'] } },
      /^\$\.dpop\.publicUrls: must not hold "http:\/\/a" twice/,
    ],
    [{ authThrottle: { failures: -1 } }, /^\$\.authThrottle\.failures: must be between 0 and 1000/],
    [
      { authThrottle: { window: '1d' } },
      /^\$\.authThrottle\.window: must be a whole number followed by s, m or h/,
    ],
    [{ authThrottle: { window: '25h' } }, /^\$\.authThrottle\.window: must be at most "24h", but is "25h"/],
    [
      { addressRate: { requests: 1, window: '25h' } },
      /^\$\.addressRate\.window: must be at most "24h", but is "25h"/,
    ],
    [{ addressRate: { window: '1m' } }, /^\$\.addressRate/],
    [{ authThrottle: { window: 60 } }, /^\$\.authThrottle\.window: must be text/],
    [{ audit: { file: '' } }, /^\$\.audit\.file: must not be empty/],
    [{ audit: { durability: 'safe' } }, /^\$\.audit\.durability: must be .* but is "safe"/],
    [{ audit: { fiel: 'x' } }, /^\$\.audit\.fiel: is not a known key; did you mean "file"\?/],
    [{ overload: { maxDelayMs: 200 } }, /^\$\.overload: is not a known key; it was removed: .*maxInFlight/],
    [
      { audit: { retention: { keep: '1d', minFreeBytes: 2_000_000 } } },
      /^\$\.audit\.retention\.minFreeBytes: is not a known key; it was removed: no segment is removed before "keep" is over/,
    ],
    [
      { workers: 1 },
      /^\$\.workers: is not a known key; it was removed, .*GATEWAY_REUSE_PORT=true .*GATEWAY_STORE/,
    ],
    [{ dataDir: '' }, /^\$\.dataDir: must not be empty/],
    [{ logLevel: 'warning' }, /^\$\.logLevel: must be .* but is "warning"/],
    [{ trustedProxies: ['10.0.0.0/40'] }, /^\$\.trustedProxies\[0\]: must be an IP address or a network/],
    [{ trustedProxies: '10.0.0.1' }, /^\$\.trustedProxies: must be an array/],
    [{ clientCertProxies: ['x'] }, /^\$\.clientCertProxies\[0\]: must be an IP address or a network/],
    [
      { allowedFieldNames: ['a b'] },
      /^\$\.allowedFieldNames\[0\]: must be the name of a header, but is "a b"/,
    ],
    [
      { allowedFieldNames: ['X_Auth.Subject'] },
      /^\$\.allowedFieldNames\[0\]: must not be "X_Auth\.Subject": .* "x-auth-subject"/,
    ],
    [{ allowedFieldNames: ['Transfer.Encoding'] }, /services may take it for "transfer-encoding"/],
    [{ allowedFieldNames: ['X_Real_IP'] }, /services may take it for "x-real-ip"/],
    [{ allowedFieldNames: ['X-Custom'] }, /^\$\.allowedFieldNames\[0\]: need not be named/],
    [{ maxInFlight: 0 }, /^\$\.maxInFlight: must be between 1 and/],
    [{ maxTunnels: -1 }, /^\$\.maxTunnels: must be between 0 and/],
    [{ maxBodyBytes: -1 }, /^\$\.maxBodyBytes: must be between 0 and/],
    [{ timeouts: { connectMs: 0 } }, /^\$\.timeouts\.connectMs: must be between 1 and 86400000/],
    [{ timeouts: { totalSeconds: 1 } }, /^\$\.timeouts\.totalSeconds: is not a known key/],
    [{ upstreams: 'http://a' }, /^\$\.upstreams: must be an object, but is "http:\/\/a"$/],
  ]
  for (const [settings, sentence] of cases) assert.match(only(settings), sentence)
})

test('a timeout longer than the total it is part of is a fault, unless it is a default', () => {
  for (const key of ['connectMs', 'headersMs', 'bodyIdleMs']) {
    const sentence = only({ timeouts: { totalMs: 1000, [key]: 1001 } })
    assert.equal(sentence, `$.timeouts.${key}: must not be longer than totalMs (1000), but is 1001`)
  }
  good({ routes: ROUTES, timeouts: { totalMs: 1000, headersMs: 1000 } })
})

test('the time for a request header must fit into that for the request', () => {
  assert.match(
    only({ timeouts: { requestMs: 5000 } }),
    /^\$\.timeouts\.requestHeadersMs: .* requestMs \(5000\), but is 10000/,
  )
  good({ routes: ROUTES, timeouts: { requestMs: 5000, requestHeadersMs: 5000 } })
})

test('each key of a route refuses what is not of its kind, by its path', () => {
  const route = { path: '/a', auth: ['none'] }
  const cases: [part: object, sentence: RegExp][] = [
    [{ path: undefined }, /^\$\.routes\[0\]\.path: is missing/],
    [{ auth: undefined }, /^\$\.routes\[0\]\.auth: is missing/],
    [{ auth: [] }, /^\$\.routes\[0\]\.auth: must not be empty/],
    [
      { auth: ['basic'] },
      /^\$\.routes\[0\]\.auth\[0\]: must be "none", "bearer", "mtls", "hmac" or "signature", but is "basic"/,
    ],
    [{ clientCert: 1 }, /^\$\.routes\[0\]\.clientCert: must be true or false, but is 1/],
    [{ auth: ['none', 'none'] }, /^\$\.routes\[0\]\.auth: must not hold "none" twice/],
    [{ auth: 'none' }, /^\$\.routes\[0\]\.auth: must be an array, but is "none"/],
    [{ methods: [] }, /^\$\.routes\[0\]\.methods: must not be empty/],
    [{ methods: ['GET', 'GET'] }, /^\$\.routes\[0\]\.methods: must not hold "GET" twice/],
    [{ methods: ['GET', 'post'] }, /^\$\.routes\[0\]\.methods\[1\]: .* did you mean "POST"\?/],
    [{ methods: ['CONNECT'] }, /^\$\.routes\[0\]\.methods\[0\]: must not be "CONNECT"/],
    [{ methods: ['TRACE'] }, /^\$\.routes\[0\]\.methods\[0\]: must not be "TRACE"/],
    [{ auth: ['bearer'], scopes: ['a b'] }, /^\$\.routes\[0\]\.scopes\[0\]: must be a scope of RFC 6749/],
    [{ auth: ['bearer'], scopes: ['a', 'a'] }, /^\$\.routes\[0\]\.scopes: must not hold "a" twice/],
    [{ auth: 'none', scopes: ['x'] }, /^\$\.routes\[0\]\.auth: must be an array/],
    [{ timeoutMs: 0 }, /^\$\.routes\[0\]\.timeoutMs: must be between/],
    [{ idleTimeoutMs: 0 }, /^\$\.routes\[0\]\.idleTimeoutMs: must be between/],
    [{ maxBodyBytes: 1.5 }, /^\$\.routes\[0\]\.maxBodyBytes: must be a whole number/],
    [{ limit: 5 }, /^\$\.routes\[0\]\.limit: is not a known key/],
    [{ path: 'a' }, /^\$\.routes\[0\]\.path: must begin with "\/"/],
    [{ path: '/a/*/b' }, /^\$\.routes\[0\]\.path: may hold "\*" only at the end/],
  ]
  for (const [part, sentence] of cases) assert.match(onlyOfRoutes({ ...route, ...part }), sentence)
})

test('each key of a further issuer refuses what is not of its kind, by its path', () => {
  const issuer = { issuer: 'https://a.example', jwksUri: 'https://a.example/keys', audience: 'x' }
  const cases: [part: object, sentence: RegExp][] = [
    [{ scopes: ['a b'] }, /^\$\.issuers\[0\]\.scopes\[0\]: must be a scope of RFC 6749/],
    [{ scopes: 'a' }, /^\$\.issuers\[0\]\.scopes: must be an array/],
    [{ issuer: undefined }, /^\$\.issuers\[0\]\.issuer: is missing/],
    [{ jwksUri: undefined }, /^\$\.issuers\[0\]\.jwksUri: is missing/],
    [{ audience: undefined }, /^\$\.issuers\[0\]\.audience: is missing/],
    [{ audience: '' }, /^\$\.issuers\[0\]\.audience: must not be empty/],
    [{ issuer: 'a.example' }, /^\$\.issuers\[0\]\.issuer: must be an http or https URL/],
    [{ issuer: 'https://a.example?b' }, /^\$\.issuers\[0\]\.issuer: must be a URL without a query/],
    [{ issuer: 'https://a.example#b' }, /^\$\.issuers\[0\]\.issuer: must be a URL without a fragment/],
    [{ issuer: 'https://a.example/b,c' }, /^\$\.issuers\[0\]\.issuer: must not hold ","/],
    [{ issuer: 'https://ä.example' }, /^\$\.issuers\[0\]\.issuer: must be ASCII/],
    [{ issuer: `https://a.example/${'x'.repeat(240)}` }, /^\$\.issuers\[0\]\.issuer: must/],
    [{ jwksUri: 'keys' }, /^\$\.issuers\[0\]\.jwksUri: must be an http or https URL/],
    [{ jwksUrl: 'x' }, /^\$\.issuers\[0\]\.jwksUrl: is not a known key; did you mean "jwksUri"\?/],
    [{ algorithms: ['none'] }, /^\$\.issuers\[0\]\.algorithms\[0\]: must be .* but is "none"/],
    [{ profile: 'fapi', algorithms: ['RS256'] }, /^\$\.issuers\[0\]\.algorithms: must not hold "RS256"/],
    [
      { profile: 'fapi', jwksUri: 'http://a.example/keys' },
      /^\$\.issuers\[0\]\.jwksUri: must be https under/,
    ],
  ]
  for (const [part, sentence] of cases) assert.match(only({ issuers: [{ ...issuer, ...part }] }), sentence)
  assert.match(only({ issuers: {} }), /^\$\.issuers: must be an array/)
  assert.match(
    only({ profile: 'fapi', algorithms: ['ES256', 'RS256'] }),
    /^\$\.algorithms: must not hold "RS256"/,
  )
  for (const host of ['localhost', '127.0.0.1:3000', '[::1]:3000']) {
    good({ routes: ROUTES, issuers: [{ ...issuer, profile: 'fapi', jwksUri: `http://${host}/keys` }] })
  }
})

test('the dialect of tokens refuses what is not of its kind, by its path, at the top and in each further issuer', () => {
  const issuer = { issuer: 'https://a.example', jwksUri: 'https://a.example/keys', audience: 'x' }
  const cases: [tokens: unknown, sentence: RegExp][] = [
    ['azure', /tokens: must be one of rfc9068, entra, .*, or an object, but is "azure"/],
    [['entra'], /tokens: must be text or an object, but is an array/],
    [{ preset: 'azure' }, /tokens\.preset: must be "rfc9068", .* but is "azure"/],
    [{ type: ['JWT'] }, /tokens\.type: is not a known key; did you mean "types"\?/],
    [{ types: [] }, /tokens\.types: must not be empty/],
    [{ types: 'JWT' }, /tokens\.types: must be an array/],
    [{ subjectClaims: [] }, /tokens\.subjectClaims: must not be empty/],
    [{ scopeClaims: [''] }, /tokens\.scopeClaims\[0\]: must not be empty/],
    [{ audienceClaim: ['aud'] }, /tokens\.audienceClaim: must be text/],
    [{ require: ['typ'] }, /tokens\.require: must be an object, but is an array/],
    [{ require: { typ: { is: 'Bearer' } } }, /tokens\.require\.typ: must be .* but is an object/],
    [{ require: { typ: null } }, /tokens\.require\.typ: must be /],
    [{ require: { typ: [] } }, /tokens\.require\.typ: must not be empty/],
    [{ require: { typ: [['Bearer']] } }, /tokens\.require\.typ\[0\]: must be /],
    [{ machine: 'idtyp' }, /tokens\.machine: must be an object/],
    [{ maxLifetime: '31d' }, /tokens: must have a maxLifetime of at most "30d", but it is "31d"/],
    [{ maxLifetime: 3600 }, /tokens\.maxLifetime: must be text/],
    [{ maxChars: 32_769 }, /tokens\.maxChars: must be between 1024 and 32768/],
  ]
  for (const [tokens, sentence] of cases) {
    assert.match(only({ tokens }), new RegExp(`^\\$\\.${sentence.source}`))
    assert.match(
      only({ issuers: [{ ...issuer, tokens }] }),
      new RegExp(`^\\$\\.issuers\\[0\\]\\.${sentence.source}`),
    )
  }
  assert.match(only({ clockTolerance: '61s' }), /^\$\.clockTolerance: must be at most "60s", but is "61s"/)
  assert.match(only({ clockTolerance: 10 }), /^\$\.clockTolerance: must be text/)
  assert.match(
    only({ issuers: [{ ...issuer, clockTolerance: '2m' }] }),
    /^\$\.issuers\[0\]\.clockTolerance: must be at most/,
  )
  assert.match(only({ audience: ['a', ''] }), /^\$\.audience\[1\]: must not be empty/)
})

test('the profile FAPI takes tokens of RFC 9068 only', () => {
  const issuer = { issuer: 'https://a.example', jwksUri: 'https://a.example/keys', audience: 'x' }
  for (const tokens of ['entra', { preset: 'entra' }] as const)
    for (const written of [
      { tokens, profile: 'fapi' },
      { issuers: [{ ...issuer, tokens, profile: 'fapi' }] },
    ])
      assert.match(
        only(written),
        /tokens: must not be "entra" under the profile "fapi": it takes rfc9068 only$/,
      )
  assert.match(
    only({ profile: 'fapi', tokens: { types: ['JWT'] } }),
    /tokens: must not have "types" under the profile "fapi"/,
  )
  good({
    routes: ROUTES,
    profile: 'fapi',
    tokens: { preset: 'rfc9068', require: { acr: '1' }, maxLifetime: '1h' },
  })
})

test('two issuers must share neither their name nor their keys', () => {
  const one = { issuer: 'https://a.example', jwksUri: 'https://a.example/keys', audience: 'x' }
  const other = { issuer: 'https://b.example', jwksUri: 'https://b.example/keys', audience: 'x' }
  good({ routes: ROUTES, issuers: [one, other] })
  assert.match(only({ issuers: [null] }), /\$\.issuers\[0\]: must be an object, but is null/)
  assert.equal(
    only({ issuers: [one, { ...other, issuer: one.issuer }] }),
    '$.issuers[1]: the issuer https://a.example is also the one of $.issuers[0]',
  )
  assert.equal(
    only({ issuers: [one, { ...other, jwksUri: one.jwksUri }] }),
    '$.issuers[1]: the jwksUri https://a.example/keys is also that of $.issuers[0]: the keys of one issuer would verify tokens of the other',
  )
})

test('scopes are a fault where anyone is let through', () => {
  const sentence = /^\$\.routes\[0\]\.scopes: must not be asked for where "auth" has "none"/
  assert.match(onlyOfRoutes({ path: '/a', auth: ['none'], scopes: ['x'] }), sentence)
  assert.match(onlyOfRoutes({ path: '/a', auth: ['bearer', 'none'], scopes: ['x'] }), sentence)
})

test('scopes are one set, or several as lists, and not both', () => {
  const scopesOf = (scopes: unknown) =>
    good({ routes: [{ path: '/a', auth: ['bearer'], scopes }] }).routes[0]?.scopes
  assert.deepEqual(scopesOf(['a', 'b']), [['a', 'b']])
  assert.deepEqual(scopesOf([['a', 'b'], ['c']]), [['a', 'b'], ['c']])
  assert.deepEqual(scopesOf([]), [])
  const faultOf = (scopes: unknown) => onlyOfRoutes({ path: '/a', auth: ['bearer'], scopes })
  assert.match(faultOf(['a', ['b']]), /scopes: must be a list of scopes, or a list of lists of scopes/)
  assert.match(faultOf([[]]), /scopes\[0\]: must not be empty/)
  assert.match(faultOf([['a b']]), /scopes\[0\]\[0\]: must be a scope/)
})

test('two routes with one path must not share a method', () => {
  const route = (path: string, methods?: string[]) => ({ path, auth: ['none'], ...(methods && { methods }) })
  const sentence = /^\$\.routes\[1\]\.path: "\/a" is also the path of \$\.routes\[0\]/
  assert.match(onlyOfRoutes(route('/a'), route('/a')), sentence)
  assert.match(onlyOfRoutes(route('/a', ['GET', 'POST']), route('/a', ['POST'])), sentence)
  assert.match(onlyOfRoutes(route('/a', ['GET']), route('/a', ['HEAD'])), sentence)
  assert.match(onlyOfRoutes(route('/a', ['PUT']), route('/a')), sentence)
  good({ routes: [route('/a', ['GET']), route('/a', ['POST']), route('/a/*')] })
})

test('two routes must not differ only in letter case or a closing slash, whatever their methods', () => {
  for (const path of ['/A', '/a/']) {
    const sentence = onlyOfRoutes(
      { path: '/a', auth: ['bearer'], methods: ['GET'] },
      { path, auth: ['none'], methods: ['POST'] },
    )
    assert.match(
      sentence,
      /^\$\.routes\[1\]\.path: ".*" differs from "\/a" of \$\.routes\[0\] only in letter case/,
    )
  }
  assert.match(
    onlyOfRoutes({ path: '/a/*', auth: ['none'] }, { path: '/A/*', auth: ['none'] }),
    /differs from "\/a\/\*"/,
  )
})

test('faults of the schema and of the rules come at once, one for each cause, in the order of the file', () => {
  const text = `{
    "port": "80",
    "port": 99999,
    "issuer": "bank",
    "routes": [
      { "path": "/a?b", "auth": ["nobody"] },
      { "pth": "/b", "auth": ["none"], "scopes": ["x"] },
      null
    ],
    "timeouts": { "totalMs": 1, "headersMs": 2 }
  }`
  const parsed = parseGatewayFile('g.json', text)
  assert.deepEqual(
    parsed.faults?.map(({ path, at }) => [path, at?.line]),
    [
      ['$.port', 3],
      ['$.port', 3],
      ['$.issuer', 4],
      ['$.routes[0].auth[0]', 6],
      ['$.routes[0].path', 6],
      ['$.routes[1].pth', 7],
      ['$.routes[1].scopes', 7],
      ['$.routes[2]', 8],
      ['$.timeouts.headersMs', 10],
    ],
  )
})

test('a file that is not a JSON object has one fault', () => {
  assert.deepEqual(faults(null), ['$: must be an object, but is null'])
  assert.equal(faults([]).length, 1)
  assert.equal(parseGatewayFile('g.json', '{').faults?.length, 1)
})

test('the files that come with the gateway are good', () => {
  for (const name of ['gateway.json', 'examples/any-service.json']) {
    const text = readFileSync(new URL(`../../config/${name}`, import.meta.url), 'utf8')
    assert.deepEqual(parseGatewayFile(name, text).faults, undefined)
  }
})

test('requests get an interaction id where an issuer has the profile FAPI, unless the file says otherwise', () => {
  const issuers = [{ issuer: 'https://b', jwksUri: 'https://b/keys', audience: 'x', profile: 'fapi' }]
  const asked = (settings: object) => good({ ...settings, routes: ROUTES }).interactionId
  assert.deepEqual([{ profile: 'fapi' }, { issuers }, { interactionId: true }].map(asked), [true, true, true])
  assert.deepEqual([{}, { profile: 'fapi', interactionId: false }].map(asked), [false, false])
})
