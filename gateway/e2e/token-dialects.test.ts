import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { call } from './client.ts'
import { commonGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const ENTRA = 'https://login.example/tenant-1/v2.0'
const OKTA = 'https://id.example/oauth2/default'
const pair = generateKeyPair('RS256', { modulusLength: 2048 })

const nowSeconds = () => Math.floor(Date.now() / 1000)

function sign(claims: JWTPayload, typ?: string): Promise<string> {
  const payload = { iat: nowSeconds(), exp: nowSeconds() + 3600, ...claims }
  return pair.then(({ privateKey }) =>
    new SignJWT(payload)
      .setProtectedHeader({ alg: 'RS256', kid: 'k1', ...(typ && { typ }) })
      .sign(privateKey),
  )
}

/** A token in the form of Microsoft Entra (v2), for a user. */
const entra = (changes: JWTPayload = {}) =>
  sign(
    {
      iss: ENTRA,
      aud: 'api://payments',
      azp: 'app-1',
      oid: '11111111-1111-4111-8111-111111111111',
      sub: 'pairwise-1',
      scp: 'payments.read payments.write',
      uti: 'u1',
      ver: '2.0',
      ...changes,
    },
    'JWT',
  )

/** A token in the form of Okta, without `typ`. */
const okta = (changes: JWTPayload = {}) =>
  sign({
    iss: OKTA,
    aud: 'api://default',
    ver: 1,
    jti: 'AT.1',
    cid: 'app-1',
    sub: 'alice@example.com',
    scp: ['payments.read', 'offline_access'],
    ...changes,
  })

describe('tokens in the forms of identity providers', () => {
  let keys: Server
  let upstream: TestUpstream
  let gateway: TestGateway
  let uri: string
  before(async () => {
    upstream = await startUpstream()
    const jwk = { ...(await exportJWK((await pair).publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }
    keys = createServer((_req, res) => {
      res.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [jwk] }))
    }).listen(0, '127.0.0.1')
    await once(keys, 'listening')
    uri = `http://127.0.0.1:${(keys.address() as AddressInfo).port}`
    gateway = await commonGateway({ config: preset() })
  })
  after(async () => {
    upstream?.close()
    keys?.closeAllConnections()
    keys?.close()
  })

  const config = (own: object, other: object) => ({
    upstream: upstream.url,
    issuer: ENTRA,
    jwksUri: `${uri}/entra`,
    audience: ['api://other', 'api://payments'],
    ...own,
    issuers: [
      {
        issuer: OKTA,
        jwksUri: `${uri}/okta`,
        audience: 'api://default',
        scopes: ['payments.read'],
        ...other,
      },
    ],
    routes: [
      { path: '/*', auth: ['bearer'], scopes: ['payments.read'] },
      { path: '/own', auth: ['bearer'], trustIssuers: [ENTRA] },
      { path: '/any', auth: ['bearer'] },
    ],
  })
  const preset = () => config({ tokens: 'entra' }, { tokens: { preset: 'okta', maxChars: 12_000 } })
  const strict = () => config({}, {})
  const ask = (token: string) =>
    call(`${gateway.url}/payments`, { headers: { authorization: `Bearer ${token}` } })

  it('pass with the preset of their issuer, and the service gets the caller', async () => {
    const ofEntra = await ask(await entra())
    assert.equal(ofEntra.status, 200, ofEntra.body)
    const { headers } = ofEntra.json<{ headers: Record<string, string> }>()
    assert.equal(headers['x-auth-subject'], '11111111-1111-4111-8111-111111111111')
    assert.equal(headers['x-auth-client'], 'app-1')
    const ofOkta = await ask(await okta())
    assert.equal(ofOkta.status, 200, ofOkta.body)
    const seen = ofOkta.json<{ headers: Record<string, string> }>().headers
    assert.deepEqual(
      [seen['x-auth-subject'], seen['x-auth-client'], seen['x-auth-scope']],
      [`${OKTA}#alice@example.com`, `${OKTA}#app-1`, 'payments.read'],
    )
    for (const { userId, clientId } of await gateway.pair(String(ofOkta.headers['x-request-id'])))
      assert.deepEqual([userId, clientId], [`${OKTA}#alice@example.com`, `${OKTA}#app-1`])
  })

  it('name an app and no user if they are for a machine', async () => {
    const token = await entra({ scp: undefined, roles: ['payments.read'], idtyp: 'app', sub: 's', oid: 's' })
    const response = await ask(token)
    assert.equal(response.status, 200, response.body)
    const [request] = await gateway.pair(String(response.headers['x-request-id']))
    assert.deepEqual([request.clientId, request.userId], ['app-1', undefined])
  })

  it('get 401 without the preset', async () => {
    await gateway.become({ config: strict() })
    for (const token of [await entra(), await okta()]) {
      const response = await ask(token)
      assert.deepEqual([response.status, response.json().code], [401, 'invalid_token'])
    }
    await gateway.become({ config: preset() })
  })

  it('get 401 if they are ID tokens, for another audience or in the form of another issuer', async () => {
    const id = { azp: undefined, scp: undefined, name: 'Alice', roles: ['payments.read'] }
    const tokens = [
      await entra({ ...id, nonce: 'n' }),
      await entra(id),
      await entra({ aud: 'api://default' }),
      await okta({ cid: undefined, scp: undefined, jti: 'ID.1', at_hash: 'h' }),
      await okta({ aud: 'api://payments' }),
      await sign({
        iss: ENTRA,
        aud: 'api://payments',
        cid: 'app-1',
        sub: 'a',
        jti: 'j',
        scp: 'payments.read',
      }),
    ]
    for (const token of tokens) {
      const response = await ask(token)
      assert.deepEqual([response.status, response.json().code], [401, 'invalid_token'])
    }
  })

  it('get 401 on a row that does not trust their issuer, and pass on a row that does or names none', async () => {
    const at = async (path: string, token: string) => {
      const response = await call(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${token}` } })
      return [response.status, response.status === 200 ? 'ok' : response.json().code]
    }
    const [own, other] = [await entra(), await okta({ scp: [] })]
    assert.deepEqual(await at('/any', other), [200, 'ok'])
    assert.deepEqual(await at('/own', other), [401, 'invalid_token'])
    assert.deepEqual(await at('/own', own), [200, 'ok'])
    assert.deepEqual(await at('/any', own), [200, 'ok'])
  })

  it('may be as long as the entry of their issuer says', async () => {
    const groups = ['g'.repeat(7000)]
    assert.equal((await ask(await okta({ groups }))).status, 200)
    assert.equal((await ask(await entra({ groups }))).status, 401)
    assert.equal((await ask(await okta({ groups: ['g'.repeat(9500)] }))).status, 400)
    await gateway.become({ config: strict() })
    assert.equal((await ask(await okta({ groups }))).status, 400)
  })
})
