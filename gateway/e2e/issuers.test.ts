import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair, type JWK } from 'jose'
import Provider from 'oidc-provider'
import * as client from 'openid-client'
import { AUDIENCE } from '../testing/test-issuer.ts'
import { call, type ReceivedResponse } from './client.ts'
import { commonGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

type Algorithm = 'PS256' | 'EdDSA' | 'Ed25519' | 'RS256'

const SECRET = 'a-secret-of-the-partner-that-is-long-enough'
/** A resource of the partner for each kind of token. */
const RESOURCES: Readonly<Record<string, { readonly audience: string; readonly alg: Algorithm }>> = {
  'urn:api:ps256': { audience: AUDIENCE, alg: 'PS256' },
  'urn:api:eddsa': { audience: AUDIENCE, alg: 'EdDSA' },
  'urn:api:ed25519': { audience: AUDIENCE, alg: 'Ed25519' },
  'urn:api:rs256': { audience: AUDIENCE, alg: 'RS256' },
  'urn:other:ps256': { audience: 'https://other.example/api', alg: 'PS256' },
}

async function signingKeys(): Promise<JWK[]> {
  const make = async (alg: Algorithm, kid: string) => {
    const { privateKey } = await generateKeyPair(alg, { extractable: true, modulusLength: 2048 })
    return { ...(await exportJWK(privateKey)), alg, kid, use: 'sig' }
  }
  return [
    await make('PS256', 'rsa-pss'),
    await make('EdDSA', 'edwards'),
    await make('Ed25519', 'fully-specified'),
    await make('RS256', 'rsa'),
  ]
}

/** Another bank's authorization server: oidc-provider, with its own keys and clients. */
async function startPartner(): Promise<{ readonly server: Server; readonly issuer: string }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, {
    jwks: { keys: (await signingKeys()) as never },
    clients: [
      {
        client_id: 'partner-bank',
        client_secret: SECRET,
        grant_types: ['client_credentials'],
        response_types: [],
        redirect_uris: [],
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => {
          const { audience, alg } = RESOURCES[resource] as { audience: string; alg: Algorithm }
          const scope = 'accounts:read users:admin'
          return { audience, scope, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg } } }
        },
      },
    },
  })
  server.on('request', provider.callback())
  return { server, issuer }
}

describe('an issuer that is trusted by configuration only', () => {
  let upstream: TestUpstream
  let partner: Awaited<ReturnType<typeof startPartner>>
  let stranger: Awaited<ReturnType<typeof startPartner>>
  let gateway: TestGateway
  before(async () => {
    upstream = await startUpstream()
    partner = await startPartner()
    stranger = await startPartner()
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        issuers: [
          {
            issuer: partner.issuer,
            jwksUri: `${partner.issuer}/jwks`,
            audience: AUDIENCE,
            algorithms: ['PS256', 'Ed25519'],
            scopes: ['accounts:read'],
          },
        ],
        routes: [
          { path: '/api/*', auth: ['bearer'], scopes: ['accounts:read'] },
          { path: '/admin', auth: ['bearer'], scopes: ['users:admin'] },
        ],
      },
    })
  })
  after(async () => {
    upstream.close()
    for (const { server } of [partner, stranger]) {
      server.close()
      server.closeAllConnections()
    }
  })

  async function tokenOf(issuer: string, resource: string, dpop?: client.CryptoKeyPair) {
    const config = await client.discovery(
      new URL(issuer),
      'partner-bank',
      undefined,
      client.ClientSecretBasic(SECRET),
      { execute: [client.allowInsecureRequests] },
    )
    const handle = dpop && { DPoP: client.getDPoPHandle(config, dpop) }
    const tokens = await client.clientCredentialsGrant(
      config,
      { resource, scope: 'accounts:read users:admin' },
      handle,
    )
    return { config, token: tokens.access_token, handle }
  }

  const ask = (token: string): Promise<ReceivedResponse> =>
    call(`${gateway.url}/api/balance`, { headers: { authorization: `Bearer ${token}` } })

  for (const [resource, alg, kid] of [
    ['urn:api:ps256', 'PS256', 'rsa-pss'],
    ['urn:api:eddsa', 'EdDSA', 'edwards'],
    ['urn:api:ed25519', 'Ed25519', 'fully-specified'],
  ] as const) {
    it(`has its ${alg} tokens accepted, with its URL before the names of its clients`, async () => {
      const { token } = await tokenOf(partner.issuer, resource)
      const header = decodeProtectedHeader(token)
      assert.deepEqual([header.alg, header.kid], [alg, kid])
      const response = await ask(token)
      assert.equal(response.status, 200, response.body)
      const { headers } = response.json<{ headers: Record<string, string> }>()
      assert.equal(headers['x-auth-client'], `${partner.issuer}#partner-bank`)
      assert.equal(headers['x-auth-subject'], undefined, 'a machine is no user')
      assert.equal(headers['x-auth-scope'], 'accounts:read')
      const [request] = await gateway.pair(String(response.headers['x-request-id']))
      assert.equal(request.clientId, `${partner.issuer}#partner-bank`)
    })
  }

  it('can give only the scopes that its entry allows, whatever scopes its tokens name', async () => {
    const { token } = await tokenOf(partner.issuer, 'urn:api:ps256')
    assert.equal(decodeJwt(token).scope, 'accounts:read users:admin')
    const before = upstream.seen.length
    const response = await call(`${gateway.url}/admin`, { headers: { authorization: `Bearer ${token}` } })
    assert.deepEqual([response.status, response.json().code], [403, 'insufficient_scope'])
    assert.equal(upstream.seen.length, before)
  })

  for (const alg of ['ES256', 'Ed25519'] as const) {
    it(`can bind its tokens to a key of the client (DPoP, ${alg})`, async () => {
      const keys = await client.randomDPoPKeyPair(alg)
      const { config, token, handle } = await tokenOf(partner.issuer, 'urn:api:ps256', keys)
      assert.equal((await ask(token)).status, 401, 'without the key')
      const target = new URL(`${gateway.url}/api/balance`)
      // Clients know the gateway by the address of its own issuer, not by the one that it listens on here.
      const known = new URL('http://localhost:8080/api/balance')
      const through: client.CustomFetch = (_url, options) => fetch(target, options as RequestInit)
      config[client.customFetch] = through
      const response = await client.fetchProtectedResource(
        config,
        token,
        known,
        'GET',
        undefined,
        undefined,
        handle,
      )
      assert.equal(response.status, 200)
    })
  }

  const refused: { readonly title: string; readonly make: () => Promise<{ readonly token: string }> }[] = [
    { title: 'for another audience', make: () => tokenOf(partner.issuer, 'urn:other:ps256') },
    {
      title: 'signed with an algorithm that its entry does not allow',
      make: () => tokenOf(partner.issuer, 'urn:api:rs256'),
    },
    {
      title: 'of an issuer without an entry, though it publishes keys',
      make: () => tokenOf(stranger.issuer, 'urn:api:ps256'),
    },
  ]
  for (const { title, make } of refused) {
    it(`has no token accepted ${title}`, async () => {
      const { token } = await make()
      const before = upstream.seen.length
      const response = await ask(token)
      assert.equal(response.status, 401)
      assert.match(String(response.headers['www-authenticate']), /Bearer realm="api", error="invalid_token"/)
      assert.equal(upstream.seen.length, before)
    })
  }
})
