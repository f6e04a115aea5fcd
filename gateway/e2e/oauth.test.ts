import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { decodeJwt, decodeProtectedHeader, generateKeyPair } from 'jose'
import * as client from 'openid-client'
import { FormBrowser } from '../../backend/testing/form-browser.ts'
import { call, type ReceivedResponse } from './client.ts'
import { authorize, discover, REDIRECTS, tokensFor } from './oauth-client.ts'
import { commonService, type TestService } from './running-service.ts'

/** Every step goes through the gateway, with a client library of others. */
describe('OAuth 2.0 through the gateway', () => {
  let service: TestService
  let mobile: client.Configuration
  let portal: client.Configuration
  before(async () => {
    service = await commonService()
    mobile = await discover(service, 'mobile-app')
    portal = await discover(service, 'bank-portal')
  })

  const balance = (accessToken: string): Promise<ReceivedResponse> =>
    call(`${service.url}/api/balance`, { headers: { authorization: `Bearer ${accessToken}` } })

  const oauthError = (expected: string) => (fault: unknown) => {
    assert.equal((fault as client.ResponseBodyError).error, expected, String(fault))
    return true
  }

  it('is discovered at the gateway, whose address all endpoints have', () => {
    const metadata = mobile.serverMetadata()
    assert.equal(metadata.issuer, service.url)
    const endpoints = Object.entries(metadata).filter(([name]) => /_(endpoint|uri)$/.test(name))
    assert.ok(endpoints.length >= 6)
    for (const [name, value] of endpoints) assert.ok(String(value).startsWith(`${service.url}/`), name)
    assert.deepEqual(metadata.code_challenge_methods_supported, ['S256'])
    assert.deepEqual(metadata.response_types_supported, ['code'])
    assert.equal(metadata.authorization_response_iss_parameter_supported, true)
    assert.equal(metadata.tls_client_certificate_bound_access_tokens, true)
  })

  it('has one metadata document under both names', async () => {
    const [oauth, openid] = await Promise.all(
      ['oauth-authorization-server', 'openid-configuration'].map((name) =>
        call(`${service.url}/.well-known/${name}`),
      ),
    )
    assert.deepEqual([oauth?.status, openid?.status], [200, 200])
    assert.deepEqual(oauth?.json(), openid?.json())
  })

  for (const pushed of [false, true]) {
    const how = pushed ? 'a pushed request (PAR)' : 'a request in the address'
    it(`gives an app that begins with ${how} a token for the API, which names the user`, async () => {
      const { back, checks } = await authorize(mobile, { pushed })
      assert.equal(back.searchParams.get('iss'), service.url, 'RFC 9207')
      const tokens = await client.authorizationCodeGrant(mobile, back, checks)
      assert.ok(tokens.refresh_token)
      assert.ok((tokens.expires_in ?? 0) > 590)
      assert.equal(decodeProtectedHeader(tokens.access_token).typ, 'at+jwt', 'RFC 9068')
      const { iss, aud, sub, client_id: clientId, scope } = decodeJwt(tokens.access_token)
      assert.deepEqual(
        [iss, aud, clientId, scope],
        [service.url, `${service.url}/api`, 'mobile-app', 'accounts:read'],
      )
      const answer = await balance(tokens.access_token)
      assert.equal(answer.status, 200)
      assert.equal(answer.json().balance, '1000.00')
      const [request, response] = await service.gateway.pair(String(answer.headers['x-request-id']))
      assert.deepEqual([request.userId, response.userId, response.statusCode], [sub, sub, 200])
    })
  }

  it('returns to an app by a private URI scheme (RFC 8252 section 7.1)', async () => {
    const { back, checks } = await authorize(mobile, { redirectUri: 'com.example.app:/callback' })
    assert.equal(back.protocol, 'com.example.app:')
    const tokens = await client.authorizationCodeGrant(mobile, back, checks)
    assert.equal((await balance(tokens.access_token)).status, 200)
  })

  it('lets a token do only what the user allowed', async () => {
    const { access_token: token } = await tokensFor(mobile, { scope: 'openid accounts:read' })
    const answer = await call(`${service.url}/api/transfer`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: {},
    })
    assert.equal(answer.status, 403)
    assert.match(String(answer.headers['www-authenticate']), /error="insufficient_scope"/)
  })

  it('makes the client refuse the response of another issuer (RFC 9207), as in a mix-up attack', async () => {
    const { back, checks } = await authorize(mobile)
    back.searchParams.set('iss', 'https://attacker.example')
    await assert.rejects(client.authorizationCodeGrant(mobile, back, checks), (fault: Error) => {
      assert.match(String(fault.cause), /unexpected "iss"/)
      return true
    })
  })

  for (const [title, challenge] of [
    ['without a code challenge', {}],
    ['with the plain method', { code_challenge: 'a'.repeat(43), code_challenge_method: 'plain' }],
  ] as const) {
    it(`sends a request ${title} back to the app with an error`, async () => {
      const start = client.buildAuthorizationUrl(mobile, {
        redirect_uri: REDIRECTS['mobile-app'],
        scope: 'openid',
        ...challenge,
      })
      const { url } = await new FormBrowser(service.url).open(start)
      assert.equal(url.origin, 'http://127.0.0.1:49152')
      assert.equal(url.searchParams.get('error'), 'invalid_request')
      assert.equal(url.searchParams.get('code'), null)
    })
  }

  it('never sends a browser to an address that the app has not registered', async () => {
    const start = client.buildAuthorizationUrl(mobile, {
      redirect_uri: 'https://attacker.example/callback',
      code_challenge: 'a'.repeat(43),
      code_challenge_method: 'S256',
    })
    const { status, url, page } = await new FormBrowser(service.url).open(start)
    assert.deepEqual([status, url.origin], [400, service.url])
    assert.match(page, /This did not work/)
  })

  it('gives no token for a stolen code without its verifier', async () => {
    const { back, checks } = await authorize(mobile)
    const stolen = { ...checks, pkceCodeVerifier: client.randomPKCECodeVerifier() }
    await assert.rejects(client.authorizationCodeGrant(mobile, back, stolen), oauthError('invalid_grant'))
  })

  it('ends the tokens of a code that is used a second time, at the gateway too', async () => {
    const { back, checks } = await authorize(mobile)
    const { access_token: token } = await client.authorizationCodeGrant(mobile, back, checks)
    assert.equal((await balance(token)).status, 200)
    await assert.rejects(client.authorizationCodeGrant(mobile, back, checks), oauthError('invalid_grant'))
    assert.equal((await balance(token)).status, 401)
  })

  it('rotates refresh tokens, and ends all tokens of the grant when an old one is used again', async () => {
    const first = await tokensFor(mobile)
    const second = await client.refreshTokenGrant(mobile, String(first.refresh_token))
    assert.notEqual(second.refresh_token, first.refresh_token)
    assert.equal((await balance(second.access_token)).status, 200)
    const reuse = client.refreshTokenGrant(mobile, String(first.refresh_token))
    await assert.rejects(reuse, oauthError('invalid_grant'))
    const next = client.refreshTokenGrant(mobile, String(second.refresh_token))
    await assert.rejects(next, oauthError('invalid_grant'))
    for (const { access_token: token } of [first, second]) {
      const answer = await balance(token)
      assert.equal(answer.status, 401, 'the gateway was told')
      assert.match(String(answer.headers['www-authenticate']), /error="invalid_token"/)
    }
  })

  it('ends an access token when the app revokes its grant (RFC 7009)', async () => {
    const tokens = await tokensFor(mobile)
    const other = await tokensFor(mobile)
    await client.tokenRevocation(mobile, String(tokens.refresh_token))
    assert.equal((await balance(tokens.access_token)).status, 401)
    assert.equal((await balance(other.access_token)).status, 200, 'a token of another grant still works')
  })

  it('knows a confidential client by its key (private_key_jwt), and by no other', async () => {
    const tokens = await tokensFor(portal, { pushed: true })
    assert.equal((await balance(tokens.access_token)).status, 200)
    const { back, checks } = await authorize(portal)
    assert.equal(back.origin, 'https://portal.example.com')
    const { privateKey } = await generateKeyPair('ES256')
    const impostor = new client.Configuration(
      portal.serverMetadata(),
      'bank-portal',
      undefined,
      client.PrivateKeyJwt(privateKey),
    )
    client.allowInsecureRequests(impostor)
    await assert.rejects(client.authorizationCodeGrant(impostor, back, checks), oauthError('invalid_client'))
  })

  it('puts the mandatory headers on responses of the authorization server, once each', async () => {
    for (const path of ['/.well-known/openid-configuration', '/oauth/authorize?client_id=nobody']) {
      const { rawHeaders } = await call(service.url + path)
      const names = rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())
      for (const name of ['strict-transport-security', 'x-frame-options', 'x-request-id', 'cache-control'])
        assert.equal(names.filter((one) => one === name).length, 1, `${name} of ${path}`)
      assert.equal(names.includes('x-revoke-session'), false)
    }
  })
})
