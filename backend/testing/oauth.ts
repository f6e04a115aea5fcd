import assert from 'node:assert/strict'
import { exportJWK, generateKeyPair } from 'jose'
import type { ClientMetadata } from 'oidc-provider'
import * as client from 'openid-client'
import type { Database } from '../database/database.ts'
import { FormBrowser } from './form-browser.ts'
import { freePort } from './free-port.ts'
import { cheapHash } from './password-hash.ts'
import { startTestService, type TestService, type TestUser } from './service.ts'

export const PASSWORD = 'correct horse'
export const NATIVE_REDIRECT = 'http://127.0.0.1:49152/callback'
export const WEB_REDIRECT = 'https://portal.example.com/callback'

/** The backend on a real socket with the system's clock, a public client, a confidential one and a user. */
export interface OAuthService {
  readonly service: TestService
  readonly url: string
  readonly user: TestUser
  /** Discovers the server as a client: `mobile-app` without a secret, `bank-portal` with its key. */
  readonly discover: (clientId: string) => Promise<client.Configuration>
}

export async function startOAuthService(
  database: Database,
  extraClients: readonly ClientMetadata[] = [],
  mtlsUrl?: string,
): Promise<OAuthService> {
  const port = await freePort('localhost')
  const url = `http://localhost:${port}`
  const pair = await generateKeyPair('ES256', { extractable: true })
  const portalKey = { ...(await exportJWK(pair.publicKey)), use: 'sig', alg: 'ES256' }
  const service = await startTestService(database, {
    publicUrl: url,
    mtlsUrl,
    clock: () => new Date(),
    clients: [...testClients(portalKey), ...extraClients],
  })
  await service.app.listen({ host: 'localhost', port })
  const user = await service.addUser({ name: 'Alice <Martin>', passwordHash: cheapHash(PASSWORD) })
  return {
    service,
    url,
    user,
    discover: (clientId) =>
      client.discovery(
        new URL(url),
        clientId,
        undefined,
        clientId === 'mobile-app' ? client.None() : client.PrivateKeyJwt(pair.privateKey),
        { execute: [client.allowInsecureRequests] },
      ),
  }
}

function testClients(portalKey: object): ClientMetadata[] {
  return [
    {
      client_id: 'mobile-app',
      client_name: 'Example <App>',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      redirect_uris: ['http://127.0.0.1/callback', 'com.example.app:/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
    },
    {
      client_id: 'bank-portal',
      client_name: 'Example Portal',
      redirect_uris: [WEB_REDIRECT],
      grant_types: ['authorization_code', 'refresh_token'],
      scope: 'openid offline_access accounts:read transfers:write users:admin',
      jwks: { keys: [portalKey as never] },
    },
  ]
}

/** Signs in, consents, and returns where the browser was sent. */
export async function allow(
  { url, user }: Pick<OAuthService, 'url' | 'user'>,
  authorize: URL,
  browser = new FormBrowser(url),
): Promise<URL> {
  const first = await browser.open(authorize)
  assert.match(first.page, /<h1>Sign in<\/h1>/)
  const consent = await browser.submit(first, '/login', { email: user.email, password: PASSWORD })
  assert.match(consent.page, /<h1>Allow/)
  return (await browser.submit(consent, '/consent')).url
}

export async function pkce(parameters: Record<string, string> = {}) {
  const verifier = client.randomPKCECodeVerifier()
  return {
    verifier,
    parameters: {
      redirect_uri: NATIVE_REDIRECT,
      scope: 'openid offline_access accounts:read',
      prompt: 'consent',
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state: 'a-state',
      ...parameters,
    } as Record<string, string>,
  }
}

export async function tokensFor(
  oauth: OAuthService,
  config: client.Configuration,
  options: { readonly parameters?: Record<string, string>; readonly dpop?: client.DPoPHandle } = {},
) {
  const { verifier, parameters } = await pkce(options.parameters)
  const back = await allow(oauth, client.buildAuthorizationUrl(config, parameters))
  const checks = { pkceCodeVerifier: verifier, expectedState: 'a-state' }
  return client.authorizationCodeGrant(
    config,
    back,
    checks,
    undefined,
    options.dpop ? { DPoP: options.dpop } : {},
  )
}
