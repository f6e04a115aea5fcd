import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseClients } from './clients/clients-file.ts'
import type { Environment } from './environment.ts'
import { describeFault, type Fault, showFault } from './faults.ts'
import { loadSettings } from './load-settings.ts'

/** A text that looks like a secret, and is nobody's. */
const KEY = 'q9Zt7Lw2Xc5Vb8Nm4Kj6Hg3Fd1Sa0PoI'
const ROUTES = [{ path: '/*', auth: ['none'] }]
const PEM = `-----BEGIN PRIVATE KEY-----\n${KEY}\n-----END PRIVATE KEY-----\n`

/** The faults of the settings. None of them shows the key, neither in a log nor in a terminal. */
function faultsOf(text: string, env: Environment = {}): string {
  const { faults } = loadSettings(env, (file) => {
    if (file === 'config/gateway.json') return text
    throw new Error(`ENOENT: no such file or directory, open '${file}'`)
  })
  return withoutKey(faults)
}

function withoutKey(faults: readonly Fault[] | undefined): string {
  assert.ok(faults, 'no fault was found')
  for (const text of [...faults.map(describeFault), ...faults.map(showFault), JSON.stringify(faults)]) {
    assert.ok(!text.includes(KEY.slice(8)), text)
  }
  return faults.map(describeFault).join('\n')
}

const gatewayJson = (file: object, indent?: number) =>
  JSON.stringify({ routes: ROUTES, ...file }, null, indent)
const tracing = (headers: unknown) => ({ tracing: { endpoint: 'http://collector:4318/', headers } })

test('a fault in the headers of tracing says where a secret belongs, and does not repeat their values', () => {
  for (const indent of [undefined, 2]) {
    const written = (headers: unknown) => faultsOf(gatewayJson(tracing(headers), indent))
    const bearer = `Bearer ${KEY}`
    assert.match(
      written({ Authorization: bearer }),
      /\.headers\.Authorization: must be \{"env": "VARIABLE"\}/,
    )
    assert.match(written({ 'X-Team': KEY }), /\.headers\.X-Team: must be \{"env"/)
    assert.match(written({ 'X-Team': { env: bearer } }), /\.X-Team\.env: must be the name of an environment/)
    assert.match(written({ 'X-Team': { file: KEY } }), /\.X-Team\.file: must be a path that begins with "\/"/)
    assert.match(written({ 'X-Team': { value: KEY } }), /\.X-Team\.value: must be \{"env"/)
    assert.match(written(`X-Team=${KEY}`), /\.headers: must be an object/)
    assert.match(written([`X-Team: ${KEY}`]), /\.headers: must be an object/)
    assert.match(written({ [`X-Team: ${KEY}`]: '' }), /\.headers: must have the names of header fields/)
    assert.match(written({ [`X-Team: ${KEY}`]: { env: 'PATH' } }), /\.headers: must have the name/)
  }
})

test('a text that is no JSON is shown without the values of headers, and of keys with the name of a secret', () => {
  for (const rest of [
    `"headers": {"X-Team": "${KEY}",}`,
    `"headers": {"A": {"env": "B"}, "X-Team": "${KEY}"`,
    `"headers": "X-Team=${KEY}",}`,
    `"Authorization": "Bearer ${KEY}",}`,
    `"a": "Authorization: Bearer ${KEY}",}`,
    `"adminToken": "${KEY}",}`,
    `"upstreamSecret": "${KEY}" ]`,
    `"secretAccessKey": "${KEY}" ]`,
  ]) {
    assert.match(faultsOf(`{"tracing": {${rest}`), /^config\/gateway\.json: line 1 column \d+: /)
  }
})

test('a secret under a key that the gateway does not know stands in no fault', () => {
  for (const key of ['upstreamSecret', 'adminToken', 'password', 'apiKey']) {
    assert.match(faultsOf(gatewayJson({ [key]: KEY }, 2)), new RegExp(`\\.${key}: is not a known key`))
  }
  const s3 = { endpoint: 'http://s3', bucket: 'b', region: 'r', secretAccessKey: KEY }
  assert.match(faultsOf(gatewayJson({ audit: { ship: { s3 } } })), /secretAccessKey: is not a known key/)
})

test('a secret in an address or a URL stands in no fault', () => {
  const user = `http://user:${KEY}@host`
  assert.match(faultsOf(gatewayJson({ upstream: [user, 'h2c://b'] })), /same version of HTTP/)
  assert.match(faultsOf(gatewayJson({ upstream: [user, `${user}/`] })), /has an @/)
  const targets = { a: { targets: [user, user] } }
  assert.match(faultsOf(gatewayJson({ upstreams: targets })), /has an @/)
  faultsOf(gatewayJson({ host: `user:${KEY}@host` }))
  faultsOf(gatewayJson({ tracing: { endpoint: `collector/?key=${KEY}` } }))
  faultsOf(gatewayJson({ jwksUri: `http://a/?key=${KEY}#x` }))
  faultsOf(gatewayJson({}), { GATEWAY_UPSTREAM: `${user},h2c://b` })
  faultsOf(gatewayJson({}), { GATEWAY_STORE: `redis://:${KEY}@host` })
  faultsOf(gatewayJson({}), { OTEL_EXPORTER_OTLP_ENDPOINT: `collector?key=${KEY}` })
})

test('a signing key in the place of a public one stands in no fault', () => {
  const members = [{ url: 'https://w', key: `PRIVATE+KEY+w1+8d66cf3f+${KEY}` }]
  const audit = { witnesses: { quorum: 1, members } }
  assert.match(faultsOf(gatewayJson({ audit })), /must be a verifier key, .* but is a private one/)
})

test('a bad name of a header is not repeated, because a colon in the place of = puts the value into it', () => {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c',
    OTEL_EXPORTER_OTLP_HEADERS: `Authorization: Basic ${KEY}==`,
  }
  assert.match(faultsOf(gatewayJson({}), env), /HEADERS: must have the name of a header field/)
})

test('a secret in the place of the name of its file stands in no fault', () => {
  for (const secret of [KEY, PEM, `whsec_${KEY}`, `${KEY}/${KEY}+${KEY}=`]) {
    assert.match(faultsOf(gatewayJson({ upstreamSecretFile: secret })), /cannot be read: ENOENT/)
    assert.match(
      faultsOf(gatewayJson({}), { GATEWAY_UPSTREAM_SECRET_FILE: secret }),
      /cannot be read: ENOENT/,
    )
    const store = { GATEWAY_STORE: 'redis://host', GATEWAY_STORE_PASSWORD_FILE: secret }
    assert.match(faultsOf(gatewayJson({}), store), /GATEWAY_STORE_PASSWORD_FILE: names a file that/)
    const tls = { a: { targets: ['https://a'], tls: { certFile: 'c', keyFile: secret } } }
    const routes = [{ path: '/*', auth: ['none'], upstream: 'a' }]
    assert.match(faultsOf(gatewayJson({ routes, upstreams: tls })), /keyFile/)
    const signing = { keyFile: secret, algorithm: 'ed25519', alsoPublish: [secret] }
    assert.match(faultsOf(gatewayJson({ signing })), /signing\.keyFile/)
  }
})

test('a secret of a client stands in no fault, whatever it looks like', () => {
  const client = (hmac: unknown) => {
    const { faults } = parseClients('clients.json', JSON.stringify({ clients: [{ id: 'a', hmac }] }))
    return withoutKey(faults)
  }
  client(KEY)
  client({ keyId: 'a', secret: KEY })
  client({ keyId: 'a', secrets: KEY })
  client({ keyId: 'a', secrets: [KEY] })
  client({ keyId: 'a', secrets: [{ env: KEY }] })
  client({ keyId: 'a', secrets: [{ file: KEY }] })
  client({ keyId: `whsec_${KEY}`, secrets: [{ env: 'PATH' }] })
})
