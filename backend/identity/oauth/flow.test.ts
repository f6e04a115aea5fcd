import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { after, before, it } from 'node:test'
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import * as client from 'openid-client'
import { onEachDatabase } from '../../testing/databases.ts'
import { FormBrowser } from '../../testing/form-browser.ts'
import {
  allow,
  NATIVE_REDIRECT,
  type OAuthService,
  PASSWORD,
  pkce,
  startOAuthService,
  tokensFor,
  WEB_REDIRECT,
} from '../../testing/oauth.ts'

const WEB = { redirect_uri: WEB_REDIRECT }

onEachDatabase('OAuth', (database) => {
  let oauth: OAuthService
  let mobile: client.Configuration
  let portal: client.Configuration
  before(async () => {
    oauth = await startOAuthService(database())
    mobile = await oauth.discover('mobile-app')
    portal = await oauth.discover('bank-portal')
  })
  after(() => oauth.service.app.close())

  /** Returns what the application is told, or the page on which the browser stays. */
  async function refusal(config: client.Configuration, parameters: Record<string, string | undefined>) {
    const { parameters: all } = await pkce()
    const merged = Object.entries({ ...all, ...parameters }).filter(([, value]) => value !== undefined)
    const chosen = Object.fromEntries(merged) as Record<string, string>
    const url = client.buildAuthorizationUrl(config, chosen)
    const { url: back, page } = await new FormBrowser(oauth.url).open(url)
    return { error: back.searchParams.get('error'), back, page }
  }

  it('gives a public client with PKCE an access token in the profile of RFC 9068', async () => {
    const tokens = await tokensFor(oauth, mobile)
    const keys = createRemoteJWKSet(new URL(`${oauth.url}/.well-known/jwks.json`))
    const { payload } = await jwtVerify(tokens.access_token, keys, {
      issuer: oauth.url,
      audience: `${oauth.url}/api`,
      typ: 'at+jwt',
      algorithms: ['ES256'],
      requiredClaims: ['exp', 'iat', 'jti', 'sid'],
    })
    assert.equal(payload.sub, oauth.user.id)
    assert.equal(payload.client_id, 'mobile-app')
    assert.equal(payload.scope, 'accounts:read')
    assert.equal((payload.exp ?? 0) - (payload.iat ?? 0), 600)
    assert.equal(tokens.expires_in, 600)
    assert.equal(tokens.claims()?.sub, oauth.user.id)
  })

  it('stores no id of a sign-in under way or of a signed-in browser, only its hash', async () => {
    const browser = new FormBrowser(oauth.url)
    const { parameters } = await pkce()
    const page = await browser.open(client.buildAuthorizationUrl(mobile, parameters))
    const consent = await browser.submit(page, '/login', { email: oauth.user.email, password: PASSWORD })
    assert.match(consent.page, /<h1>Allow/)
    const rows = await database().query<{ model: string; hash: string; payload: string }>(
      "SELECT model, id_hash AS hash, payload FROM oauth_artifacts WHERE model IN ('Session', 'Interaction')",
    )
    const models = new Map(rows.map(({ hash, model }) => [hash, model]))
    assert.deepEqual([...new Set(models.values())].sort(), ['Interaction', 'Session'])
    const stored = rows.flatMap(({ payload }) => payload.match(/[\w-]{43}/g) ?? [])
    const ids = stored.filter((text) => models.has(hash('sha256', text, 'hex')))
    assert.deepEqual(
      ids.map((id) => models.get(hash('sha256', id, 'hex'))),
      [],
    )
    const { status } = await browser.submit(consent, '/consent', {}, { redirect: 'manual' })
    assert.equal(status, 303, 'where it goes on is known all the same')
  })

  it('gives the code, with iss (RFC 9207) and state, to an app with its own scheme', async () => {
    const redirect_uri = 'com.example.app:/callback'
    const { verifier, parameters } = await pkce({ redirect_uri, resource: `${oauth.url}/api` })
    const back = await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))
    assert.equal(back.protocol, 'com.example.app:')
    assert.equal(back.searchParams.get('iss'), oauth.url)
    const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
    const tokens = await client.authorizationCodeGrant(mobile, back, checks)
    assert.equal(decodeJwt(tokens.access_token).aud, `${oauth.url}/api`)
  })

  it('takes the loopback redirect with any port and no other change (RFC 8252 section 7.3)', async () => {
    for (const port of ['1024', '65535']) {
      const { page } = await refusal(mobile, { redirect_uri: `http://127.0.0.1:${port}/callback` })
      assert.match(page, /<h1>Sign in/)
    }
    for (const redirect_uri of [
      'http://127.0.0.1:1024/other',
      'http://127.0.0.1:1024/callback?a=b',
      'http://localhost:1024/callback',
      'http://127.0.0.2:1024/callback',
      'https://127.0.0.1:1024/callback',
      'http://127.0.0.1.example.com/callback',
      'http://user@127.0.0.1:1024/callback',
      'com.example.app:/other',
      'https://attacker.example/callback',
      undefined,
    ]) {
      const { page, back } = await refusal(mobile, { redirect_uri })
      assert.match(page, /<h1>This did not work/, String(redirect_uri))
      assert.equal(back.origin, oauth.url, 'nobody is sent anywhere')
    }
  })

  it('authenticates a confidential client by private_key_jwt, also for a pushed request (RFC 9126)', async () => {
    const { verifier, parameters } = await pkce(WEB)
    const url = await client.buildAuthorizationUrlWithPAR(portal, parameters)
    assert.match(String(url.searchParams.get('request_uri')), /^urn:ietf:params:oauth:request_uri:/)
    assert.equal(url.searchParams.get('redirect_uri'), null)
    const back = await allow(oauth, url)
    const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
    const tokens = await client.authorizationCodeGrant(portal, back, checks)
    assert.equal(decodeJwt(tokens.access_token).client_id, 'bank-portal')
    assert.ok(tokens.refresh_token)

    const again = await new FormBrowser(oauth.url).open(url)
    assert.match(`${again.page}${again.url}`, /invalid_request_uri|This did not work/, 'good once')
  })

  it('refuses a pushed request of another client, and pushing without a key', async () => {
    const { parameters } = await pkce(WEB)
    const url = await client.buildAuthorizationUrlWithPAR(portal, parameters)
    url.searchParams.set('client_id', 'mobile-app')
    const { page } = await new FormBrowser(oauth.url).open(url)
    assert.match(page, /This did not work/)
    const body = new URLSearchParams({ client_id: 'bank-portal', ...parameters })
    const response = await fetch(`${oauth.url}/oauth/par`, { method: 'POST', body })
    assert.equal(response.status, 401)
    const { parameters: own } = await pkce({ response_type: 'code', client_id: 'mobile-app' })
    const pushed = await fetch(`${oauth.url}/oauth/par`, { method: 'POST', body: new URLSearchParams(own) })
    assert.equal(pushed.status, 201)
    assert.ok(((await pushed.json()) as { expires_in: number }).expires_in < 600)
  })

  it('stores no more of a request than 8 KiB, pushed or carried by the browser', async () => {
    const stored = async () => (await database().query('SELECT 1 AS one FROM oauth_artifacts')).length
    const { parameters } = await pkce({ response_type: 'code', client_id: 'mobile-app' })
    const push = (state: string) =>
      fetch(`${oauth.url}/oauth/par`, {
        method: 'POST',
        body: new URLSearchParams({ ...parameters, state }),
      })
    const before = await stored()
    const refused = await push('x'.repeat(40_000))
    assert.equal(refused.status, 400)
    assert.equal(((await refused.json()) as { error: string }).error, 'invalid_request')
    const query = new URLSearchParams({ ...parameters, state: 'x'.repeat(9000) })
    const { url, page } = await new FormBrowser(oauth.url).open(`/oauth/authorize?${query}`)
    assert.match(`${url.searchParams.get('error')}${page}`, /invalid_request/)
    assert.equal(await stored(), before)
    assert.equal((await push('x'.repeat(4000))).status, 201)
  })

  it('completes a request of the greatest length that it accepts', async () => {
    const { parameters } = await pkce()
    await new FormBrowser(oauth.url).open(client.buildAuthorizationUrl(mobile, parameters))
    const [row] = await database().query<{ characters: number }>(
      "SELECT length(payload) AS characters FROM oauth_artifacts WHERE model = 'Interaction' ORDER BY expires_at DESC LIMIT 1",
    )
    const nonce = 'n'.repeat(8 * 1024 - (row?.characters ?? 0) - '"nonce":"",'.length)
    const back = await allow(oauth, client.buildAuthorizationUrl(mobile, { ...parameters, nonce }))
    assert.ok(back.searchParams.get('code'), back.href)
    const longer = client.buildAuthorizationUrl(mobile, { ...parameters, nonce: `${nonce}n` })
    const { url } = await new FormBrowser(oauth.url).open(longer)
    assert.equal(url.searchParams.get('error'), 'invalid_request')
  })

  it('refuses requests without PKCE, with the method plain, and for anything but a code', async () => {
    const cases: [Record<string, string | undefined>, string][] = [
      [{ code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
      [{ code_challenge_method: 'plain' }, 'invalid_request'],
      [{ code_challenge_method: undefined }, 'invalid_request'],
      [{ response_type: 'token' }, 'unsupported_response_type'],
      [{ response_type: 'code id_token' }, 'unsupported_response_type'],
      [{ resource: 'https://elsewhere.example/api' }, 'invalid_target'],
      [{ scope: 'openid users:admin' }, 'invalid_scope'],
    ]
    for (const [parameters, expected] of cases) {
      for (const [config, redirect] of [
        [mobile, {}],
        [portal, WEB],
      ] as const) {
        if (config === portal && expected === 'invalid_scope') continue
        const { error, back } = await refusal(config, { ...redirect, ...parameters })
        const inFragment = new URLSearchParams(back.hash.slice(1)).get('error')
        assert.equal(error ?? inFragment, expected, JSON.stringify(parameters))
      }
    }
  })

  it('offers no password grant, no client credentials grant and no device grant', async () => {
    for (const grant_type of [
      'password',
      'client_credentials',
      'urn:ietf:params:oauth:grant-type:device_code',
    ]) {
      const body = new URLSearchParams({
        grant_type,
        client_id: 'mobile-app',
        username: oauth.user.email,
        password: PASSWORD,
      })
      const response = await fetch(`${oauth.url}/oauth/token`, { method: 'POST', body })
      assert.equal(response.status, 400)
      assert.equal(((await response.json()) as { error: string }).error, 'unsupported_grant_type')
    }
  })

  it('takes the verifier of RFC 7636 appendix B for its challenge', async () => {
    const { parameters } = await pkce()
    const challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    const url = client.buildAuthorizationUrl(mobile, { ...parameters, code_challenge: challenge })
    const body = new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: 'mobile-app',
      code: (await allow(oauth, url)).searchParams.get('code') ?? '',
      code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      redirect_uri: NATIVE_REDIRECT,
    })
    assert.equal((await fetch(`${oauth.url}/oauth/token`, { method: 'POST', body })).status, 200)
  })

  it('exchanges a code only for the right verifier, redirect URI and client', async () => {
    const { verifier, parameters } = await pkce()
    const code = (await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))).searchParams.get(
      'code',
    )
    const exchange = async (changes: Record<string, string>) => {
      const body = new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: 'mobile-app',
        code: code ?? '',
        code_verifier: verifier,
        redirect_uri: NATIVE_REDIRECT,
        ...changes,
      })
      const response = await fetch(`${oauth.url}/oauth/token`, { method: 'POST', body })
      return { status: response.status, body: (await response.json()) as { error?: string } }
    }
    assert.equal(
      (await exchange({ code_verifier: client.randomPKCECodeVerifier() })).body.error,
      'invalid_grant',
    )
    assert.equal((await exchange({ code_verifier: '' })).body.error, 'invalid_grant')
    assert.equal(
      (await exchange({ redirect_uri: 'http://127.0.0.1:1/callback' })).body.error,
      'invalid_grant',
    )
    assert.equal((await exchange({ client_id: 'bank-portal' })).status, 401)
    assert.equal((await exchange({ code: 'made-up' })).body.error, 'invalid_grant')
    assert.equal((await exchange({})).status, 200)
  })

  it('takes a code once: the second use revokes what the first one got, and the gateway is told', async () => {
    const { verifier, parameters } = await pkce()
    const back = await allow(oauth, client.buildAuthorizationUrl(mobile, parameters))
    const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
    const tokens = await client.authorizationCodeGrant(mobile, back, checks)
    const body = new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: 'mobile-app',
      code: back.searchParams.get('code') ?? '',
      code_verifier: verifier,
      redirect_uri: NATIVE_REDIRECT,
    })
    const second = await fetch(`${oauth.url}/oauth/token`, { method: 'POST', body })
    assert.equal(second.status, 400)
    assert.equal(second.headers.get('x-revoke-session'), decodeJwt(tokens.access_token).sid)
    await assert.rejects(client.refreshTokenGrant(mobile, tokens.refresh_token ?? ''), {
      error: 'invalid_grant',
    })
  })

  it('tells the application that the user denied, or cancelled before signing in', async () => {
    for (const until of ['sign-in', 'consent']) {
      const browser = new FormBrowser(oauth.url)
      const { parameters } = await pkce()
      let page = await browser.open(client.buildAuthorizationUrl(mobile, parameters))
      if (until === 'consent') {
        page = await browser.submit(page, '/login', { email: oauth.user.email, password: PASSWORD })
      }
      const { url } = await browser.submit(page, '/deny')
      assert.equal(url.searchParams.get('error'), 'access_denied')
      assert.equal(url.searchParams.get('state'), 'a-state')
      assert.equal(url.searchParams.get('iss'), oauth.url)
      assert.equal(url.searchParams.get('code'), null)
    }
  })

  it('is described by metadata at both well-known places, whatever Host the request names', async () => {
    for (const name of ['openid-configuration', 'oauth-authorization-server']) {
      const response = await fetch(`${oauth.url}/.well-known/${name}`, {
        headers: {
          'x-forwarded-host': 'attacker.example',
          'x-forwarded-proto': 'https',
          'x-request-id': 'ask-1',
        },
      })
      assert.equal(response.headers.get('x-request-id'), 'ask-1')
      const metadata = (await response.json()) as Record<string, unknown>
      assert.equal(metadata.issuer, oauth.url)
      assert.equal(metadata.jwks_uri, `${oauth.url}/.well-known/jwks.json`)
      assert.deepEqual(
        metadata.revocation_endpoint_auth_methods_supported,
        metadata.token_endpoint_auth_methods_supported,
      )
      assert.deepEqual(metadata.revocation_endpoint_auth_signing_alg_values_supported, [
        'ES256',
        'PS256',
        'EdDSA',
        'Ed25519',
      ])
      assert.equal(metadata.mtls_endpoint_aliases, undefined)
      assert.deepEqual(metadata.response_types_supported, ['code'])
      assert.deepEqual(metadata.code_challenge_methods_supported, ['S256'])
      assert.doesNotMatch(JSON.stringify(metadata), /attacker/)
    }
    const wrongMethod = await fetch(`${oauth.url}/oauth/token`)
    assert.equal(wrongMethod.status, 405)
    assert.equal(wrongMethod.headers.get('allow'), 'POST')
  })
})
