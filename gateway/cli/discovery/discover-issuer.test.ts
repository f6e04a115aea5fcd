import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parseGatewayFile } from '../../config/gateway-file.ts'
import { loadSettings } from '../../config/load-settings.ts'
import { issuerWarnings } from '../../config/rules/issuer-rules.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'
import { discoverIssuer } from './discover-issuer.ts'

/** Starts a provider on this machine. @param documents what it answers, by path @returns its origin */
async function provider(t: TestContext, documents: (origin: string) => Record<string, unknown>) {
  const server = createServer((req, res) => {
    const document = documents(origin)[req.url ?? '']
    res.statusCode = document === undefined ? 404 : 200
    res.end(typeof document === 'string' ? document : JSON.stringify(document))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return origin
}

const OIDC = '/realms/bank/.well-known/openid-configuration'
const RFC_8414 = '/.well-known/oauth-authorization-server/realms/bank'

test('the keys are those that the discovery document names, and the preset is that of the provider', async (t) => {
  const origin = await provider(t, (self) => ({
    [OIDC]: { issuer: `${self}/realms/bank`, jwks_uri: `${self}/elsewhere` },
  }))
  const issuer = `${origin}/realms/bank`
  const { keys, found, notes } = await discoverIssuer(issuer, 'https://api.example')
  assert.deepEqual(keys, {
    issuer,
    jwksUri: `${origin}/elsewhere`,
    audience: 'https://api.example',
    tokens: 'keycloak',
  })
  assert.equal(
    found,
    `Keycloak, "tokens": "keycloak"; keys from ${origin}/elsewhere, as ${origin}${OIDC} says`,
  )
  assert.deepEqual(notes, ['routes ask for no scope yet: name "scopes" in a row (docs/operate/routes.md)'])
})

test('the document of RFC 8414 counts where there is none of OpenID Connect', async (t) => {
  const origin = await provider(t, (self) => ({
    [RFC_8414]: { issuer: `${self}/realms/bank`, jwks_uri: `${self}/keys` },
  }))
  const { keys } = await discoverIssuer(`${origin}/realms/bank`, 'a')
  assert.equal(keys.jwksUri, `${origin}/keys`)
})

test('a provider of opaque tokens without keys is configured by its introspection endpoint', async (t) => {
  const origin = await provider(t, (self) => ({
    [OIDC]: { issuer: `${self}/realms/bank`, introspection_endpoint: `${self}/introspect` },
  }))
  const { keys, found, notes } = await discoverIssuer(`${origin}/realms/bank`, 'a')
  assert.deepEqual(keys, {
    issuer: `${origin}/realms/bank`,
    audience: 'a',
    tokens: 'keycloak',
    introspection: {
      url: `${origin}/introspect`,
      clientId: 'CHANGE-ME',
      clientSecretFile: 'CHANGE-ME',
      for: 'all',
    },
  })
  assert.equal(
    found,
    `Keycloak, "tokens": "keycloak"; no keys, so it is asked about each token, as ${origin}${OIDC} says`,
  )
  assert.match(notes[0] ?? '', /^set "clientId" and "clientSecretFile", or "keyFile", of "introspection"/)
  const file = { upstream: 'http://127.0.0.1:3000', routes: [{ path: '/*', auth: ['bearer'] }], ...keys }
  assert.equal(parseGatewayFile('gateway.json', JSON.stringify(file)).faults, undefined)
})

test('a note names the introspection endpoint of a provider with keys, and an endpoint that cannot be used is refused', async (t) => {
  const documentWith = async (endpoint: string) => {
    const origin = await provider(t, (self) => ({
      [OIDC]: {
        issuer: `${self}/realms/bank`,
        jwks_uri: `${self}/keys`,
        introspection_endpoint: endpoint,
      },
    }))
    return discoverIssuer(`${origin}/realms/bank`, 'a')
  }
  const { notes } = await documentWith('https://id.example/introspect')
  assert.match(
    notes[0] ?? '',
    /^opaque tokens, if it issues any, need "introspection": \{"url": "https:\/\/id.example\/introspect"/,
  )
  await assert.rejects(
    documentWith('http://id.example/introspect'),
    /"introspection_endpoint" in .* must be https/,
  )
})

test('a document of another issuer, or without usable keys, is refused', async (t) => {
  const refused: [document: (self: string) => object, says: RegExp][] = [
    [
      (self) => ({ issuer: `${self}/realms/other`, jwks_uri: `${self}/k` }),
      /is of the issuer ".*other", not/,
    ],
    [
      (self) => ({ issuer: `${self}/realms/bank/`, jwks_uri: `${self}/k` }),
      /is of the issuer ".*bank\/", not/,
    ],
    [(self) => ({ jwks_uri: `${self}/k` }), /is of the issuer undefined, not/],
    [(self) => ({ issuer: `${self}/realms/bank` }), /"jwks_uri" in .* is missing/],
    [
      (self) => ({ issuer: `${self}/realms/bank`, jwks_uri: 'http://keys.example/k' }),
      /"jwks_uri" in .* must be https, or on this machine/,
    ],
    [
      (self) => ({ issuer: `${self}/realms/bank`, jwks_uri: 'file:///etc/keys' }),
      /must be an http or https URL/,
    ],
    [() => [], /is of the issuer undefined/],
  ]
  for (const [document, says] of refused) {
    const origin = await provider(t, (self) => ({ [OIDC]: document(self) }))
    await assert.rejects(discoverIssuer(`${origin}/realms/bank`, 'a'), says)
  }
})

test('without a readable discovery document, jwksUri is the usual one of the provider, and a note says so', async (t) => {
  for (const [answers, cause] of [
    [{}, /the response has status 404, not 200/],
    [{ [OIDC]: '<html>' }, /the response is not JSON/],
    [{ [OIDC]: ' '.repeat(300_000) }, /is longer than 262144 bytes/],
  ] as const) {
    const origin = await provider(t, () => answers)
    const { keys, notes } = await discoverIssuer(`${origin}/realms/bank`, undefined)
    assert.equal(keys.jwksUri, `${origin}/realms/bank/protocol/openid-connect/certs`)
    assert.match(notes[0] ?? '', /^check "jwksUri": no discovery document could be read/)
    assert.match(notes[0] ?? '', cause)
    assert.match(notes[1] ?? '', /^set "audience": what an audience mapper of a client scope adds/)
  }
})

test('each provider is recognised by its issuer, and its keys are where it publishes them', async () => {
  const offline = () => Promise.reject(new Error('offline'))
  for (const [issuer, preset, jwksUri] of [
    [
      'https://login.microsoftonline.com/T/v2.0',
      'entra',
      'https://login.microsoftonline.com/T/discovery/v2.0/keys',
    ],
    ['https://sts.windows.net/T/', 'entra', 'https://login.microsoftonline.com/T/discovery/keys'],
    ...['login.microsoftonline.us', 'login.partner.microsoftonline.cn', 'b.ciamlogin.com'].map(
      (host) => [`https://${host}/T/v2.0`, 'entra', `https://${host}/T/discovery/v2.0/keys`] as const,
    ),
    ['https://b.okta-emea.com/oauth2/1', 'okta', 'https://b.okta-emea.com/oauth2/1/v1/keys'],
    ['https://b.okta-gov.com/oauth2/1', 'okta', 'https://b.okta-gov.com/oauth2/1/v1/keys'],
    ['https://b.okta.com/oauth2/default', 'okta', 'https://b.okta.com/oauth2/default/v1/keys'],
    ['https://b.oktapreview.com', 'okta', 'https://b.oktapreview.com/oauth2/v1/keys'],
    ['https://b.eu.auth0.com/', 'auth0', 'https://b.eu.auth0.com/.well-known/jwks.json'],
    [
      'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x',
      'cognito',
      'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_x/.well-known/jwks.json',
    ],
    ['https://id.b/realms/r', 'keycloak', 'https://id.b/realms/r/protocol/openid-connect/certs'],
    ['https://auth.pingone.eu/E/as', 'ping', 'https://auth.pingone.eu/E/as/jwks'],
    ['https://id.example', 'rfc9068', 'https://id.example/.well-known/jwks.json'],
    ['https://login.microsoftonline.com.evil.example/T', 'rfc9068', undefined],
    ['https://evilokta.com/oauth2/default', 'rfc9068', undefined],
  ] as const) {
    const { keys } = await discoverIssuer(issuer, 'a', offline)
    assert.equal(keys.tokens, preset, issuer)
    if (jwksUri !== undefined) assert.equal(keys.jwksUri, jwksUri)
  }
})

test('init writes what it has found, every route then wants a token, and validate accepts it', async (t) => {
  const origin = await provider(t, (self) => ({
    [OIDC]: { issuer: `${self}/realms/bank`, jwks_uri: `${self}/keys` },
  }))
  const dir = temporaryDirectory(t)
  const words = ['--upstream', 'http://127.0.0.1:3000', '--issuer', `${origin}/realms/bank`, '--dir', dir]
  const { status, stdout } = await countersign(['init', ...words])
  assert.equal(status, 0)
  const written = JSON.parse(readFileSync(join(dir, 'gateway.json'), 'utf8'))
  assert.deepEqual(written, {
    $schema: './schemas/gateway.schema.json',
    upstream: 'http://127.0.0.1:3000',
    issuer: `${origin}/realms/bank`,
    jwksUri: `${origin}/keys`,
    audience: 'CHANGE-ME: the audience of your API',
    tokens: 'keycloak',
    routes: [{ path: '/*', auth: ['bearer'] }],
  })
  assert.match(stdout, /note: set "audience": .* Until then every token is refused/)
  const { value, faults } = loadSettings({
    GATEWAY_CONFIG: join(dir, 'gateway.json'),
    GATEWAY_LIMITS: join(dir, 'limits.json'),
  })
  assert.equal(faults, undefined)
  assert.deepEqual(issuerWarnings(value), [
    `"audience" is "CHANGE-ME: the audience of your API": every token of ${origin}/realms/bank is refused`,
  ])
})

test('init with an issuer wants a token where the document does not say who may call, and says so', async (t) => {
  const origin = await provider(t, (self) => ({
    [OIDC]: { issuer: `${self}/realms/bank`, jwks_uri: `${self}/keys` },
  }))
  const dir = temporaryDirectory(t)
  const openapi = join(dir, 'api.json')
  writeFileSync(openapi, '{"openapi":"3.1.0","paths":{"/a":{"get":{"responses":{}}}}}')
  const init = async (to: string, ...more: string[]) => {
    const words = ['--upstream', 'http://127.0.0.1:3000', '--openapi', openapi, '--dir', join(dir, to)]
    const { status, stdout } = await countersign(['init', ...words, ...more])
    assert.equal(status, 0)
    const { auth } = JSON.parse(readFileSync(join(dir, to, 'gateway.json'), 'utf8')).openapi
    return { auth, stdout }
  }
  const known = await init('with', '--issuer', `${origin}/realms/bank`)
  assert.deepEqual(known.auth, ['bearer'])
  assert.match(
    known.stdout,
    /note: operations for which the document has no "security" need a token \(openapi\.auth\)/,
  )
  assert.doesNotMatch(known.stdout, /anyone may call/)
  const unknown = await init('without')
  assert.deepEqual(unknown.auth, ['none'])
  assert.match(unknown.stdout, /note: anyone may call operations/)
})
