import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configFiles, parseEnvironment } from './environment.ts'
import { OVERRIDDEN_KEYS } from './json/key-names.ts'
import { loadSettings } from './load-settings.ts'

const OPEN = JSON.stringify({ routes: [{ path: '/*', auth: ['none'] }] })

function fault(name: string, text: string): string {
  const { faults } = loadSettings({ [name]: text }, () => OPEN)
  assert.equal(faults?.length, 1, `${name}=${text}`)
  assert.equal(faults[0]?.file, 'environment')
  assert.equal(faults[0]?.path.replace(/\[\d+\]$/, ''), name)
  return faults[0].reason
}

function read(env: Record<string, string | undefined>): object {
  const { overrides, faults } = parseEnvironment(env)
  assert.deepEqual(faults, [])
  return Object.fromEntries([...overrides].map(([path, { value }]) => [path, value]))
}

test('an empty environment overrides nothing and names the usual files', () => {
  assert.deepEqual(read({ HOME: '/', GATEWAY_PORT: undefined }), {})
  assert.deepEqual(configFiles({}), {
    configFile: 'config/gateway.json',
    limitsFile: 'config/limits.json',
    clientsFile: 'config/clients.json',
  })
})

test('every variable arrives at its key', () => {
  const env = {
    GATEWAY_CONFIG: 'a.json',
    GATEWAY_LIMITS: 'b.json',
    GATEWAY_CLIENTS: 'c.json',
    GATEWAY_HOST: '0.0.0.0',
    GATEWAY_PORT: '0',
    GATEWAY_TLS_PORT: '8443',
    GATEWAY_TLS_CERT: 'c.pem',
    GATEWAY_TLS_KEY: 'k.pem',
    GATEWAY_TLS_CLIENT_CA: 'ca.pem',
    GATEWAY_TLS_CLIENT_CRL: 'crl.pem',
    GATEWAY_TLS_TICKET_KEY: 'ticket',
    GATEWAY_TLS_OCSP: 'tls.ocsp',
    GATEWAY_TLS_CLIENT_OCSP: 'hard',
    GATEWAY_TLS_OCSP_FETCH: 'true',
    GATEWAY_ADMIN_HOST: '::1',
    GATEWAY_ADMIN_PORT: '65535',
    GATEWAY_ADMIN_TOKEN_FILE: '/run/secrets/admin',
    GATEWAY_ADMIN_OPEN: 'false',
    GATEWAY_ADMIN_NAMES: 'gateway-1, gw.example',
    GATEWAY_UPSTREAM: 'http://a:1/, unix:/run/b.sock',
    GATEWAY_ISSUER: 'https://bank.example',
    GATEWAY_JWKS_URI: 'https://bank.example/keys',
    GATEWAY_AUDIENCE: 'api',
    GATEWAY_AUDIT_FILE: '-',
    GATEWAY_AUDIT_DURABILITY: 'synced',
    GATEWAY_AUDIT_SEALS: 'off',
    GATEWAY_AUDIT_SEAL_KEY: '/run/secrets/seal.pem',
    GATEWAY_STORE: 'memory',
    GATEWAY_WORKERS: '1',
    GATEWAY_REUSE_PORT: 'true',
    GATEWAY_PROFILE: 'small',
    GATEWAY_UPSTREAM_SECRET_FILE: '/run/secrets/gateway',
    GATEWAY_DRAIN_GRACE_MS: '0',
    GATEWAY_DATA_DIR: '/var/lib/x',
    GATEWAY_LOG_LEVEL: 'debug',
    GATEWAY_LOG_FORMAT: 'ecs',
  }
  const names = [...OVERRIDDEN_KEYS.keys()].filter((name) => name.startsWith('GATEWAY_'))
  const untested = names.filter((name) => !(name in env))
  assert.deepEqual(untested, [], 'give each variable a value here, and its setting below')
  assert.deepEqual(configFiles(env), { configFile: 'a.json', limitsFile: 'b.json', clientsFile: 'c.json' })
  assert.deepEqual(read(env), {
    '$.host': '0.0.0.0',
    '$.port': 0,
    '$.tls.port': 8443,
    '$.tls.certFile': 'c.pem',
    '$.tls.keyFile': 'k.pem',
    '$.tls.clientCaFile': 'ca.pem',
    '$.tls.clientCrlFile': 'crl.pem',
    '$.tls.ticketKeyFile': 'ticket',
    '$.tls.ocspFile': 'tls.ocsp',
    '$.tls.clientOcsp': 'hard',
    '$.tls.ocspFetch': true,
    '$.adminHost': '::1',
    '$.adminPort': 65535,
    '$.adminTokenFile': '/run/secrets/admin',
    '$.adminOpen': false,
    '$.adminNames': ['gateway-1', 'gw.example'],
    '$.upstream': ['http://a:1/', 'unix:/run/b.sock'],
    '$.issuer': 'https://bank.example',
    '$.jwksUri': 'https://bank.example/keys',
    '$.audience': 'api',
    '$.audit.file': '-',
    '$.audit.durability': 'synced',
    '$.audit.seals': 'off',
    '$.audit.sealKeyFile': '/run/secrets/seal.pem',
    '$.upstreamSecretFile': '/run/secrets/gateway',
    '$.timeouts.drainGraceMs': 0,
    '$.dataDir': '/var/lib/x',
    '$.logLevel': 'debug',
    '$.logFormat': 'ecs',
  })
})

test('a variable is held to all that the schema and the rules say of its key', () => {
  const faults = (env: Record<string, string>, file = OPEN) =>
    loadSettings(env, () => file).faults?.map(({ path, reason }) => `${path}: ${reason}`)
  assert.deepEqual(faults({ GATEWAY_AUDIENCE: 'a,b,a' }), ['GATEWAY_AUDIENCE: must not hold "a" twice'])
  const names = Array.from({ length: 65 }, (_, index) => `g${index}`).join(',')
  assert.deepEqual(faults({ GATEWAY_ADMIN_NAMES: names }), [
    'GATEWAY_ADMIN_NAMES: must have at most 64 entries, but has 65',
  ])
  assert.deepEqual(faults({ GATEWAY_UPSTREAM: 'http://a,' }), ['GATEWAY_UPSTREAM[1]: must not be empty'])
  assert.deepEqual(faults({ GATEWAY_PORT: '65536', GATEWAY_LOG_LEVEL: 'debgu' }, 'no json')?.slice(0, 2), [
    'GATEWAY_PORT: must be between 0 and 65535, but is 65536',
    'GATEWAY_LOG_LEVEL: must be "trace", "debug", "info", "warn", "error", "fatal" or "silent", but is "debgu"; did you mean "debug"?',
  ])
  const { value } = loadSettings({ GATEWAY_PORT: '1' }, () =>
    JSON.stringify({ ...JSON.parse(OPEN), port: 'x' }),
  )
  assert.equal(value?.port, 1, 'a value that the variable replaces does not count')
  const odd = JSON.stringify({ ...JSON.parse(OPEN), tls: 'on' })
  assert.match(String(faults({ GATEWAY_TLS_PORT: '1' }, odd)), /^\$\.tls: must be an object/)
})

test('each variable refuses what is not of its kind', () => {
  assert.match(fault('GATEWAY_HOST', 'a:1'), /must be an IP address/)
  assert.match(fault('GATEWAY_AUDIT_SEALS', 'yes'), /must be "on" or "off", but is "yes"/)
  assert.match(fault('GATEWAY_PROFILE', 'tiny'), /must be one of fast, small, but is "tiny"/)
  assert.match(fault('GATEWAY_ADMIN_OPEN', 'yes'), /must be true or false, but is "yes"/)
  assert.match(fault('GATEWAY_ADMIN_NAMES', 'a, b:9090'), /a host name, without a port, but is "b:9090"/)
  assert.match(fault('GATEWAY_ADMIN_HOST', '[::1]'), /must be an IP address/)
  for (const text of ['86400001', '-1', '80.5', '0x50', ' 80', '1e3', '2s', '']) {
    for (const name of ['GATEWAY_PORT', 'GATEWAY_TLS_PORT', 'GATEWAY_ADMIN_PORT', 'GATEWAY_DRAIN_GRACE_MS']) {
      const reason =
        text === '' ? /set but empty/ : /must be (a whole number|between 0 and (65535|86400000)), but is "?/
      assert.match(fault(name, text), reason)
    }
  }
  assert.match(fault('GATEWAY_UPSTREAM', 'http://a,b'), /must be http:\/\/host:port.*but is "b"/)
  assert.match(fault('GATEWAY_UPSTREAM', 'http://a,http://a/'), /must not be "http:\/\/a" a second time/)
  assert.match(fault('GATEWAY_ISSUER', 'bank'), /must be an http or https URL/)
  assert.match(fault('GATEWAY_JWKS_URI', 'keys'), /must be an http or https URL/)
  assert.match(fault('GATEWAY_LOG_LEVEL', 'loud'), /must be "trace", "debug", .*but is "loud"/)
  assert.match(fault('GATEWAY_AUDIT_DURABILITY', 'safe'), /must be "written", "synced" or "buffered"/)
})

test('more workers than one are a fault that names what takes their place', () => {
  assert.deepEqual(read({ GATEWAY_WORKERS: '1' }), {})
  for (const text of ['0', '2', 'auto', 'all', '01', '']) {
    const told = fault('GATEWAY_WORKERS', text)
    if (text === '') assert.match(told, /set but empty/)
    else assert.match(told, new RegExp(`but is "${text}": .*GATEWAY_REUSE_PORT=true .*GATEWAY_STORE`))
  }
})

test('a variable that is set but empty is a fault', () => {
  for (const name of ['GATEWAY_CONFIG', 'GATEWAY_AUDIENCE', 'GATEWAY_UPSTREAM', 'GATEWAY_CLIENTS']) {
    assert.match(fault(name, ''), /set but empty/)
  }
})

test('a misspelt variable is a fault that names the one that was meant', () => {
  assert.match(fault('GATEWAY_PROT', '80'), /did you mean GATEWAY_PORT\?/)
  assert.match(fault('GATEWAY_UPSTREAMS', 'x'), /did you mean GATEWAY_UPSTREAM\?/)
  assert.equal(fault('GATEWAY_SOMETHING_ELSE_ENTIRELY', 'x'), 'is not a variable that the gateway knows')
})

test('variables that Kubernetes sets for a Service called gateway or gateway-something are ignored', () => {
  const env = {
    GATEWAY_SERVICE_HOST: '10.0.0.1',
    GATEWAY_SERVICE_PORT: '80',
    GATEWAY_SERVICE_PORT_HTTP: '80',
    GATEWAY_PORT_80_TCP: 'tcp://10.0.0.1:80',
    GATEWAY_PORT_80_TCP_PROTO: 'tcp',
    GATEWAY_PORT_80_TCP_PORT: '80',
    GATEWAY_PORT_80_TCP_ADDR: '10.0.0.1',
    GATEWAY_METRICS_SERVICE_HOST: '10.0.0.2',
    GATEWAY_METRICS_PORT: 'tcp://10.0.0.2:80',
    GATEWAY_METRICS_PORT_53_UDP_ADDR: '10.0.0.2',
  }
  assert.deepEqual(read(env), {})
})

test('a variable of ours that Kubernetes sets is a fault that says so', () => {
  for (const name of ['GATEWAY_PORT', 'GATEWAY_ADMIN_PORT', 'GATEWAY_TLS_PORT']) {
    assert.match(
      fault(name, 'tcp://10.0.0.1:80'),
      /Kubernetes sets for a Service of this name.*enableServiceLinks/,
    )
  }
})

test('an unknown variable that only looks like a service link is still a fault', () => {
  assert.match(fault('GATEWAY_METRICS_PORT', '80'), /not a variable that the gateway knows/)
  assert.match(fault('GATEWAY_UPSTRAEM', 'tcp://x'), /did you mean GATEWAY_UPSTREAM\?/)
})

test('all faults come at once', () => {
  const { faults } = loadSettings({ GATEWAY_PORT: 'x', GATEWAY_ISSUER: 'y', GATEWAY_FOO: 'z' }, () => OPEN)
  assert.deepEqual(
    faults?.map(({ path }) => path),
    ['GATEWAY_FOO', 'GATEWAY_PORT', 'GATEWAY_ISSUER'],
  )
})
