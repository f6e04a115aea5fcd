import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { exportJWK, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'
import { AUDIENCE } from '../testing/test-issuer.ts'
import { call } from './client.ts'
import { commonGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const SECRET = 'secret of the app'
const DETAIL = {
  type: 'payment_initiation',
  instructedAmount: { currency: 'EUR', amount: '123.50' },
  creditorAccount: { iban: 'DE02100100109307118603' },
  fee: 0.25,
}
const BODY = { amount: { currency: 'EUR', amount: '123.50' }, to: 'DE02100100109307118603', fee: 0.25 }

type Format = 'jwt' | 'opaque'

/** oidc-provider with rich authorization requests. */
async function startIssuer(): Promise<{ readonly server: Server; readonly issuer: string }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { privateKey } = await generateKeyPair('ES256', { extractable: true })
  const machine = {
    client_secret: SECRET,
    grant_types: ['client_credentials'],
    response_types: [],
    redirect_uris: [],
    id_token_signed_response_alg: 'ES256',
    authorization_details_types: ['payment_initiation'],
  }
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'ES256', kid: 'k1', use: 'sig' }] as never },
    clients: ['app', 'gateway'].map((client_id) => ({ client_id, ...machine })) as never,
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      introspection: { enabled: true },
      richAuthorizationRequests: {
        enabled: true,
        types: { payment_initiation: { validate: () => undefined } },
        authorizationDetailsForGrantSource: () => undefined,
        authorizationDetailsForAccessToken: (ctx: { oidc: { params?: Record<string, unknown> } }) =>
          JSON.parse(String(ctx.oidc.params?.authorization_details)),
        authorizationDetailsForIntrospection: (_ctx: unknown, token: { rar: unknown }) => token.rar,
      },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx: unknown, resource: string) => ({
          audience: AUDIENCE,
          scope: 'payments',
          accessTokenFormat: resource.endsWith('jwt') ? 'jwt' : 'opaque',
          jwt: { sign: { alg: 'ES256' } },
          accessTokenTTL: 300,
        }),
      },
    } as never,
  })
  server.on('request', provider.callback())
  return { server, issuer }
}

describe('authorization_details from a real issuer', () => {
  const directory = mkdtempSync(join(tmpdir(), 'details-'))
  let provider: Awaited<ReturnType<typeof startIssuer>>
  let upstream: TestUpstream
  let gateway: TestGateway
  before(async () => {
    const clientSecretFile = join(directory, 'secret')
    writeFileSync(clientSecretFile, SECRET)
    provider = await startIssuer()
    upstream = await startUpstream()
    const { issuer } = provider
    gateway = await commonGateway({
      config: {
        upstream: upstream.url,
        issuers: [
          {
            issuer,
            jwksUri: `${issuer}/jwks`,
            audience: AUDIENCE,
            scopes: ['payments'],
            introspection: { url: `${issuer}/token/introspection`, clientId: 'gateway', clientSecretFile },
          },
        ],
        routes: [
          {
            path: '/payments',
            auth: ['bearer'],
            authorizationDetails: {
              type: 'payment_initiation',
              match: { '/instructedAmount': '/amount', '/creditorAccount/iban': '/to', '/fee': '/fee' },
            },
          },
        ],
      },
    })
  })
  after(async () => {
    upstream?.close()
    provider?.server.close()
    provider?.server.closeAllConnections()
    rmSync(directory, { recursive: true })
  })

  async function tokenFor(format: Format, details: readonly object[] = [DETAIL]): Promise<string> {
    const response = await call(`${provider.issuer}/token`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`app:${encodeURIComponent(SECRET)}`).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        resource: `urn:api:${format}`,
        scope: 'payments',
        authorization_details: JSON.stringify(details),
      }).toString(),
    })
    const { access_token: token } = response.json<{ access_token: string }>()
    assert.equal(token?.includes('.'), format === 'jwt', response.body)
    return token
  }

  const pay = (token: string, body: string | Buffer | object, headers = {}) =>
    call(`${gateway.url}/payments`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      body,
    })

  for (const format of ['jwt', 'opaque'] as const) {
    it(`let the approved payment through unchanged, and no other (${format})`, async () => {
      const token = await tokenFor(format, [{ ...DETAIL, fee: 1 }, DETAIL])
      const text = `{ "fee": 25e-2, "to":"\\u0044E02100100109307118603", "amount": ${JSON.stringify(BODY.amount)} }`
      const paid = await pay(token, text)
      assert.equal(paid.status, 200, paid.body)
      assert.equal(upstream.seen.at(-1)?.body, text)
      const before = upstream.seen.length
      for (const other of [
        { ...BODY, amount: { ...BODY.amount, amount: '123.5' } },
        { ...BODY, to: 'DE02100100109307118604' },
        { ...BODY, fee: '0.25' },
        {},
      ]) {
        const refused = await pay(token, other)
        assert.deepEqual([refused.status, refused.json().code], [403, 'authorization_details_mismatch'])
        assert.match(String(refused.headers['www-authenticate']), /error="insufficient_authorization"/)
      }
      assert.equal((await pay(token, '')).status, 403)
      assert.equal((await pay(token, `{"to":"x",${JSON.stringify(BODY).slice(1)}`)).status, 400)
      assert.equal((await pay(token, JSON.stringify(BODY), { 'content-type': 'text/plain' })).status, 415)
      assert.equal(upstream.seen.length, before)
    })
  }

  it('are needed: a token without any gets 403', async () => {
    const refused = await pay(await tokenFor('jwt', []), BODY)
    assert.deepEqual([refused.status, refused.json().code], [403, 'authorization_details_mismatch'])
  })
})
