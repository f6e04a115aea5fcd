import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import * as client from 'openid-client'
import { Agent, fetch as undiciFetch } from 'undici'
import { makeDemoCertificates } from '../tls/demo/demo-certs.ts'
import { CLIENT_AUTH, makeAuthority, makeCertificate, makeRevocationList } from '../tls/demo/throw-away-ca.ts'
import { tokensFor } from './oauth-client.ts'
import { startService, type TestService } from './running-service.ts'

const REDIRECT = 'https://bank-b.example.com/callback'
const CLIENT = {
  client_id: 'bank-b',
  client_name: 'Bank B',
  redirect_uris: [REDIRECT],
  grant_types: ['authorization_code', 'refresh_token'],
  token_endpoint_auth_method: 'tls_client_auth',
  tls_client_auth_san_uri: 'urn:countersign:demo:bank-b',
  tls_client_certificate_bound_access_tokens: true,
}

/** A client certificate of `npm run certs:demo`, or one with the same name by another authority. */
type Certificate = 'client' | 'revoked' | 'namesake'

/** Tokens bound to the client certificate (RFC 8705), which also authenticates the client at the token endpoint. */
describe('a token bound to a client certificate', () => {
  let dir: string
  let service: TestService
  let secureUrl: string
  let tokens: client.TokenEndpointResponse
  const agents: Agent[] = []
  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-mtls-'))
    await makeDemoCertificates(dir, false)
    const other = await makeAuthority({ subject: 'CN=Other authority' })
    const namesake = await makeCertificate({
      subject: 'CN=bank-b,O=Countersign demo',
      issuer: other,
      san: [{ type: 'url', value: CLIENT.tls_client_auth_san_uri }],
      extendedKeyUsages: [CLIENT_AUTH],
    })
    const issuers = [new X509Certificate(pem('ca')).raw.toString('base64')]
    for (const [name, text] of [
      ['clients.json', JSON.stringify([{ ...CLIENT, tls_client_auth_issuers: issuers }])],
      ['namesake.pem', namesake.certPem],
      ['namesake-key.pem', namesake.keyPem],
      ['authorities.pem', `${pem('ca')}${other.certPem}`],
      ['lists.pem', `${pem('crl')}${await makeRevocationList(other)}`],
    ] as const)
      writeFileSync(join(dir, name), text)
    service = await startService({
      limits: 'logins-unlimited',
      env: {
        BACKEND_OAUTH_CLIENTS: join(dir, 'clients.json'),
        GATEWAY_TLS_PORT: '0',
        GATEWAY_TLS_CERT: join(dir, 'server.pem'),
        GATEWAY_TLS_KEY: join(dir, 'server-key.pem'),
        GATEWAY_TLS_CLIENT_CA: join(dir, 'authorities.pem'),
        GATEWAY_TLS_CLIENT_CRL: join(dir, 'lists.pem'),
      },
    })
    const { tlsPort } = await service.gateway.process.line(({ msg }) => msg === 'listening')
    secureUrl = `https://localhost:${tlsPort}`
    tokens = await tokensFor(await configuration('client'), { redirectUri: REDIRECT })
  })
  after(async () => {
    await Promise.all(agents.map((agent) => agent.destroy()))
    await service?.end()
    rmSync(dir, { recursive: true, force: true })
  })

  const pem = (name: string) => readFileSync(join(dir, `${name}.pem`))

  /** Connections to the HTTPS listener that present this certificate, or none. */
  function presenting(certificate: Certificate | undefined): Agent {
    const identity =
      certificate === undefined ? {} : { cert: pem(certificate), key: pem(`${certificate}-key`) }
    const agent = new Agent({ connect: { ca: pem('ca'), ...identity } })
    agents.push(agent)
    return agent
  }

  /** The client. It presents the certificate in its own requests; the browser does not. */
  async function configuration(certificate: Certificate | undefined): Promise<client.Configuration> {
    const dispatcher = presenting(certificate)
    const secure: client.CustomFetch = async (url, options) => {
      const target = url.replace(service.url, secureUrl)
      return (await undiciFetch(target, { ...options, dispatcher } as never)) as unknown as Response
    }
    return client.discovery(new URL(service.url), 'bank-b', undefined, client.TlsClientAuth(), {
      execute: [client.allowInsecureRequests],
      [client.customFetch]: secure,
    })
  }

  async function balance(base: string, dispatcher: Agent, headers: Record<string, string> = {}) {
    const { status, headers: answered } = await undiciFetch(`${base}/api/balance`, {
      dispatcher,
      headers: { authorization: `Bearer ${tokens.access_token}`, ...headers },
    })
    return {
      status,
      challenge: answered.get('www-authenticate') ?? '',
      requestId: answered.get('x-request-id'),
    }
  }

  it('has the thumbprint of the certificate that its client presented', () => {
    const thumbprint = createHash('sha256')
      .update(new X509Certificate(pem('client')).raw)
      .digest('base64url')
    assert.deepEqual(decodeJwt(tokens.access_token).cnf, { 'x5t#S256': thumbprint })
  })

  it('is accepted over a connection with that certificate', async () => {
    const { status, requestId } = await balance(secureUrl, presenting('client'))
    assert.equal(status, 200)
    const [request] = await service.gateway.pair(String(requestId))
    assert.equal(request.userId, decodeJwt(tokens.access_token).sub)
  })

  const own = () => `:${new X509Certificate(pem('client')).raw.toString('base64')}:`
  const thefts: {
    readonly title: string
    readonly over: 'http' | 'https'
    readonly certificate?: Certificate
    readonly headers?: () => Record<string, string>
  }[] = [
    { title: 'over plain HTTP', over: 'http' },
    {
      title: 'over plain HTTP with the certificate in a header',
      over: 'http',
      headers: () => ({ 'client-cert': own() }),
    },
    { title: 'over TLS without a certificate', over: 'https' },
    {
      title: 'over TLS with the certificate in a header',
      over: 'https',
      headers: () => ({ 'client-cert': own() }),
    },
    {
      title: 'over TLS with another certificate of the same authority',
      over: 'https',
      certificate: 'revoked',
    },
    {
      title: 'over TLS with another certificate and the right one in a header',
      over: 'https',
      certificate: 'revoked',
      headers: () => ({ 'client-cert': own() }),
    },
  ]
  for (const { title, over, certificate, headers } of thefts) {
    it(`is refused when a thief sends it ${title}`, async () => {
      const base = over === 'http' ? service.url : secureUrl
      const { status, challenge } = await balance(base, presenting(certificate), headers?.())
      assert.equal(status, 401)
      assert.match(challenge, /Bearer realm="api", error="invalid_token"/)
    })
  }

  for (const [certificate, how] of [
    ['revoked', 'another certificate'],
    ['namesake', 'a certificate of the same name by another authority'],
    [undefined, 'no certificate'],
  ] as const) {
    it(`is not refreshed for a client with ${how}`, async () => {
      const thief = await configuration(certificate)
      const refresh = client.refreshTokenGrant(thief, String(tokens.refresh_token))
      await assert.rejects(refresh, { error: 'invalid_client' })
    })
  }

  it('is not refreshed for a client with the certificate in a header, on any listener', async () => {
    for (const base of [service.url, secureUrl]) {
      const { status } = await undiciFetch(`${base}/oauth/token`, {
        method: 'POST',
        dispatcher: presenting(undefined),
        headers: { 'client-cert': own() },
        body: new URLSearchParams({
          grant_type: 'refresh_token',
          refresh_token: String(tokens.refresh_token),
          client_id: 'bank-b',
        }),
      })
      assert.equal(status, 401, base)
    }
  })

  it('is refreshed for its client, and stays bound', async () => {
    const next = await client.refreshTokenGrant(await configuration('client'), String(tokens.refresh_token))
    assert.deepEqual(decodeJwt(next.access_token).cnf, decodeJwt(tokens.access_token).cnf)
  })
})
