import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { exportJWK, exportPKCS8, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'
import * as client from 'openid-client'
import { type AuthorityFiles, makeAuthorityFiles } from '../testing/test-authority.ts'
import { AUDIENCE } from '../testing/test-issuer.ts'
import { call } from './client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRET = 'a-secret of the app: with + and % in it'
const API = 'urn:api:opaque'
const PUBLIC = 'https://api.example'

interface OpaqueIssuer {
  readonly server: Server
  readonly issuer: string
  /** Requests to the introspection endpoint. */
  readonly asked: () => number
}

/** oidc-provider with its default, opaque access tokens. @param publicJwk of the gateway's key */
async function startIssuer(publicJwk: object): Promise<OpaqueIssuer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const machine = {
    grant_types: ['client_credentials'],
    response_types: [],
    redirect_uris: [],
    id_token_signed_response_alg: 'ES256',
    introspection_signed_response_alg: 'ES256',
  }
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', kid: 'k1', use: 'sig' }] as never },
    clients: [
      { client_id: 'app', client_secret: SECRET, ...machine },
      {
        client_id: 'gateway by secret',
        client_secret: SECRET,
        ...machine,
      },
      {
        client_id: 'gateway by key',
        token_endpoint_auth_method: 'private_key_jwt',
        jwks: { keys: [publicJwk] as never },
        ...machine,
      },
    ] as never,
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true },
      jwtIntrospection: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          audience: AUDIENCE,
          scope: 'accounts:read',
          accessTokenFormat: 'opaque',
          accessTokenTTL: 300,
        }),
      },
    },
  })
  let asked = 0
  const handle = provider.callback()
  server.on('request', (req, res) => {
    if (req.url === '/token/introspection') asked += 1
    return handle(req, res)
  })
  return { server, issuer, asked: () => asked }
}

describe('opaque tokens from a real issuer', () => {
  const directory = mkdtempSync(join(tmpdir(), 'introspection-'))
  const secretFile = join(directory, 'secret')
  const keyFile = join(directory, 'key.pem')
  let provider: OpaqueIssuer
  let upstream: TestUpstream
  let gateway: TestGateway
  let authority: AuthorityFiles
  const bySecret = { clientId: 'gateway by secret', clientSecretFile: secretFile }
  const byKey = { clientId: 'gateway by key', keyFile }
  before(async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
    writeFileSync(secretFile, `${SECRET}\n`)
    writeFileSync(keyFile, await exportPKCS8(privateKey))
    provider = await startIssuer({ ...(await exportJWK(publicKey)), alg: 'ES256', use: 'sig' })
    upstream = await startUpstream()
    authority = await makeAuthorityFiles(directory)
    const env = { NODE_EXTRA_CA_CERTS: authority.env.GATEWAY_TLS_CLIENT_CA }
    gateway = await startGateway({ env, config: configBy(bySecret) })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
    provider.server.close()
    provider.server.closeAllConnections()
    rmSync(directory, { recursive: true })
  })

  const configBy = (introspection: object) => ({
    upstream: upstream.url,
    dpop: { publicUrls: [PUBLIC] },
    issuers: [
      {
        issuer: provider.issuer,
        jwksUri: `${provider.issuer}/jwks`,
        audience: AUDIENCE,
        scopes: ['accounts:read'],
        introspection: { url: `${provider.issuer}/token/introspection`, ...introspection },
      },
    ],
    routes: [{ path: '/*', auth: ['bearer'], scopes: ['accounts:read'] }],
  })

  async function grant(dpop?: client.CryptoKeyPair) {
    const allow = { execute: [client.allowInsecureRequests] }
    const secret = client.ClientSecretBasic(SECRET)
    const config = await client.discovery(new URL(provider.issuer), 'app', undefined, secret, allow)
    const handle = dpop && { DPoP: client.getDPoPHandle(config, dpop) }
    const request = { resource: API, scope: 'accounts:read' }
    const { access_token: token } = await client.clientCredentialsGrant(config, request, handle)
    assert.equal(token.includes('.'), false)
    return { config, token, handle }
  }

  const ask = (token: string) =>
    call(`${gateway.url}/api/balance`, { headers: { authorization: `Bearer ${token}` } })

  for (const [how, introspection] of [
    ['by its secret', bySecret],
    ['by its key', byKey],
    ['by its key, with signed answers', { ...byKey, signed: true }],
  ] as const) {
    it(`are accepted when the gateway proves itself ${how}`, async () => {
      await gateway.become({ config: configBy(introspection) })
      const { token } = await grant()
      const before = provider.asked()
      const responses = await Promise.all(Array.from({ length: 10 }, () => ask(token)))
      assert.deepEqual(
        responses.map(({ status }) => status),
        Array.from({ length: 10 }, () => 200),
        responses[0]?.body ?? '',
      )
      assert.equal(provider.asked() - before, 1)
      assert.equal((await ask(`${token}x`)).status, 401)
    })
  }

  it('name the app in the audit trail, and no user', async () => {
    await gateway.become({ config: configBy(bySecret) })
    const { token } = await grant()
    const { headers } = await ask(token)
    const [{ clientId, userId }] = await gateway.pair(String(headers['x-request-id']))
    assert.deepEqual([clientId, userId], [`${provider.issuer}#app`, undefined])
    assert.equal(JSON.stringify(gateway.audit()).includes(token), false)
  })

  it('are refused at once after their revocation where nothing is cached', async () => {
    await gateway.become({ config: configBy({ ...bySecret, cache: 'off' }) })
    const { token, config } = await grant()
    assert.equal((await ask(token)).status, 200)
    await client.tokenRevocation(config, token)
    const response = await ask(token)
    assert.equal(response.status, 401)
    assert.equal(JSON.parse(response.body).code, 'invalid_token')
  })

  it('need a proof of the key that they are bound to', async () => {
    await gateway.become({ config: configBy(bySecret) })
    const pair = await client.randomDPoPKeyPair('ES256')
    const { token } = await grant(pair)
    assert.equal((await ask(token)).status, 401)
    const status = async (signer: client.CryptoKeyPair) => {
      const dpop = await proof(signer, { htm: 'GET', htu: `${PUBLIC}/api/balance`, ath: ath(token) })
      const headers = { authorization: `DPoP ${token}`, dpop }
      return (await call(`${gateway.url}/api/balance`, { headers })).status
    }
    assert.equal(await status(await client.randomDPoPKeyPair('ES256')), 401)
    assert.equal(await status(pair), 200)
  })

  it('are introspected by mutual TLS, also with a new certificate of the gateway', async () => {
    const {
      GATEWAY_TLS_CERT: cert = '',
      GATEWAY_TLS_KEY: key = '',
      GATEWAY_TLS_CLIENT_CA: ca = '',
    } = authority.env
    const files = { certFile: join(directory, 'gateway.pem'), keyFile: join(directory, 'gateway-key.pem') }
    const proveBy = async (subject: string) => {
      const made = await authority.issue({ subject })
      writeFileSync(files.certFile, made.cert)
      writeFileSync(files.keyFile, made.key)
    }
    await proveBy('CN=first')
    const names: unknown[] = []
    const tls = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(ca), requestCert: true }
    const endpoint = createSecureServer(tls, (req, res) => {
      names.push((req.socket as TLSSocket).getPeerCertificate().subject.CN)
      res.setHeader('content-type', 'application/json')
      const exp = Math.floor(Date.now() / 1000) + 60
      const answer = { active: true, token_type: 'Bearer', client_id: 'app', aud: AUDIENCE, exp }
      res.end(JSON.stringify({ ...answer, scope: 'accounts:read' }))
    }).listen(0, '127.0.0.1')
    await once(endpoint, 'listening')
    const url = `https://localhost:${(endpoint.address() as AddressInfo).port}`
    await gateway.become({ config: configBy({ url, clientId: 'gateway', ...files }) })
    assert.equal((await ask('one')).status, 200)
    await proveBy('CN=second')
    assert.equal((await ask('two')).status, 200)
    assert.deepEqual(names, ['first', 'second'])
    endpoint.close()
    endpoint.closeAllConnections()
  })

  it('get 503 while the gateway has a wrong secret, and 200 once the file has the right one', async () => {
    const file = join(directory, 'wrong')
    writeFileSync(file, 'wrong')
    await gateway.become({ config: configBy({ ...bySecret, clientSecretFile: file }) })
    const { token } = await grant()
    const response = await ask(token)
    assert.equal(response.status, 503)
    assert.equal(JSON.parse(response.body).code, 'introspection_unavailable')
    assert.equal(response.headers['retry-after'], '5')
    writeFileSync(file, SECRET)
    assert.equal((await ask(token)).status, 200)
  })
})
