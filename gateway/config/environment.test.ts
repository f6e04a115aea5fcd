import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configFiles, parseEnvironment } from './environment.ts'
import { OVERRIDDEN_KEYS, settingOf } from './json/key-names.ts'

function fault(name: string, text: string): string {
  const { faults } = parseEnvironment({ [name]: text })
  assert.equal(faults?.length, 1, `${name}=${text}`)
  assert.equal(faults[0]?.file, 'environment')
  assert.equal(faults[0]?.path, name)
  return faults[0].reason
}

test('an empty environment overrides nothing and names the usual files', () => {
  assert.deepEqual(parseEnvironment({ HOME: '/', GATEWAY_PORT: undefined }), { value: {} })
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
  }
  const names = [...OVERRIDDEN_KEYS.keys()].filter((name) => name.startsWith('GATEWAY_'))
  const untested = names.filter((name) => !(name in env))
  assert.deepEqual(untested, [], 'give each variable a value here, and its setting below')
  assert.deepEqual(configFiles(env), { configFile: 'a.json', limitsFile: 'b.json', clientsFile: 'c.json' })
  assert.deepEqual(parseEnvironment(env), {
    value: {
      host: '0.0.0.0',
      port: 0,
      tls: {
        port: 8443,
        certFile: 'c.pem',
        keyFile: 'k.pem',
        clientCaFile: 'ca.pem',
        clientCrlFile: 'crl.pem',
        ticketKeyFile: 'ticket',
        ocspFile: 'tls.ocsp',
        ocspFetch: true,
      },
      adminHost: '::1',
      adminPort: 65535,
      adminTokenFile: '/run/secrets/admin',
      adminOpen: false,
      adminNames: ['gateway-1', 'gw.example'],
      upstreams: ['http://a:1', 'unix:/run/b.sock'],
      upstreamSecretFile: '/run/secrets/gateway',
      issuer: 'https://bank.example',
      jwksUri: 'https://bank.example/keys',
      audience: 'api',
      auditFile: '-',
      auditDurability: 'synced',
      auditSeals: 'off',
      auditSealKeyFile: '/run/secrets/seal.pem',
      dataDir: '/var/lib/x',
      drainGraceMs: 0,
      logLevel: 'debug',
    },
  })
})

test('a variable of a key that is only a part of a setting is a mistake of ours', () => {
  assert.throws(() => settingOf('timeouts.connectMs'), /timeouts\.connectMs .*NAMES_IN_FILE/)
})

test('each variable refuses what is not of its kind', () => {
  assert.match(fault('GATEWAY_HOST', 'a:1'), /must be an IP address/)
  assert.match(fault('GATEWAY_AUDIT_SEALS', 'yes'), /must be one of on, off, but is "yes"/)
  assert.match(fault('GATEWAY_PROFILE', 'tiny'), /must be one of fast, small, but is "tiny"/)
  assert.match(fault('GATEWAY_ADMIN_OPEN', 'yes'), /must be one of true, false, but is "yes"/)
  assert.match(fault('GATEWAY_ADMIN_NAMES', 'a, b:9090'), /a host name, without a port, but is "b:9090"/)
  assert.match(fault('GATEWAY_ADMIN_HOST', '[::1]'), /must be an IP address/)
  for (const port of ['65536', '-1', '80.5', '0x50', ' 80', '1e3', 'http']) {
    assert.match(fault('GATEWAY_PORT', port), /must be a whole number between 0 and 65535, but is "/)
    assert.match(fault('GATEWAY_TLS_PORT', port), /must be a whole number between 0 and 65535, but is "/)
    assert.match(fault('GATEWAY_ADMIN_PORT', port), /must be a whole number between 0 and 65535, but is "/)
  }
  for (const ms of ['-1', '2s', '1.5', '86400001', '1e3']) {
    assert.match(
      fault('GATEWAY_DRAIN_GRACE_MS', ms),
      /must be a whole number of milliseconds between 0 and 86400000/,
    )
  }
  assert.match(fault('GATEWAY_UPSTREAM', 'http://a,b'), /must be http:\/\/host:port.*but is "b"/)
  assert.match(fault('GATEWAY_UPSTREAM', 'http://a,'), /must be http:\/\/host:port.*but is ""/)
  assert.match(fault('GATEWAY_UPSTREAM', 'http://a,http://a/'), /must not name http:\/\/a twice/)
  assert.match(fault('GATEWAY_ISSUER', 'bank'), /must be an http or https URL/)
  assert.match(fault('GATEWAY_JWKS_URI', 'keys'), /must be an http or https URL/)
  assert.match(fault('GATEWAY_LOG_LEVEL', 'loud'), /must be one of trace, debug, .*but is "loud"/)
})

test('what this version cannot do is refused instead of ignored', () => {
  assert.match(fault('GATEWAY_AUDIT_DURABILITY', 'safe'), /must be one of written, synced, buffered/)
})

test('more workers than one are a fault that names what takes their place', () => {
  assert.deepEqual(parseEnvironment({ GATEWAY_WORKERS: '1' }), { value: {} })
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

test('variables that Kubernetes sets for a Service called gateway or gateway-something are let be', () => {
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
  assert.deepEqual(parseEnvironment(env), { value: {} })
})

test('one of ours that Kubernetes has taken is a fault that says so', () => {
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
  const { faults } = parseEnvironment({ GATEWAY_PORT: 'x', GATEWAY_ISSUER: 'y', GATEWAY_FOO: 'z' })
  assert.deepEqual(
    faults?.map(({ path }) => path),
    ['GATEWAY_PORT', 'GATEWAY_ISSUER', 'GATEWAY_FOO'],
  )
})
