import assert from 'node:assert/strict'
import { exportJWK, generateKeyPair } from 'jose'
import type { ClientMetadata } from 'oidc-provider'
import * as client from 'openid-client'
import type { Database } from '../database/database.ts'
import { freePort } from './free-port.ts'
import { cheapHash } from './password-hash.ts'
import { startTestService, type TestService, type TestUser } from './service.ts'

export const PASSWORD = 'correct horse'
export const NATIVE_REDIRECT = 'http://127.0.0.1:49152/callback'
export const WEB_REDIRECT = 'https://portal.example.com/callback'

/** The backend on a real socket, by the system's clock, with a public client, a confidential one and a user. */
export interface OAuthService {
  readonly service: TestService
  readonly url: string
  readonly user: TestUser
  /** Discovers the server as a client program does: `mobile-app` without a secret, `bank-portal` with its key. */
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

/** The end of a visit: a response for the application, or a page. */
export interface Landing {
  readonly status: number
  /** Where the browser was last. */
  readonly url: URL
  readonly headers: Headers
  readonly page: string
}

/**
 * A browser without a screen: it keeps cookies by path, follows redirects on the server's origin, and fills forms in.
 * It stops at the redirect to the application.
 */
export class FormBrowser {
  readonly #origin: string
  readonly #jar = new Map<string, { readonly value: string; readonly path: string }>()

  constructor(origin: string) {
    this.#origin = origin
  }

  async open(url: URL | string, init: RequestInit = {}): Promise<Landing> {
    let next = new URL(url, this.#origin)
    let request = init
    for (let hops = 0; hops < 10; hops++) {
      const headers = new Headers(request.headers)
      const cookies = this.#cookiesFor(next.pathname)
      if (cookies !== '') headers.set('cookie', cookies)
      const response = await fetch(next, { ...request, headers, redirect: 'manual' })
      this.#keep(response.headers)
      const location = response.headers.get('location')
      if (location === null) {
        return { status: response.status, url: next, headers: response.headers, page: await response.text() }
      }
      await response.body?.cancel()
      next = new URL(location, next)
      if (next.origin !== this.#origin || init.redirect === 'manual')
        return { status: response.status, url: next, headers: response.headers, page: '' }
      request = {}
    }
    throw new Error('redirected too often')
  }

  /**
   * Sends the form of the page whose action ends so, with these fields beside the hidden ones. With
   * `redirect: 'manual'` it stops at the first redirect, too.
   */
  submit(
    landing: Landing,
    action: string,
    fields: Record<string, string> = {},
    init: RequestInit = {},
  ): Promise<Landing> {
    const forms = landing.page.match(/<form[\s\S]*?<\/form>/g) ?? []
    const form = forms.find((one) => new RegExp(`action="[^"]*${action}"`).test(one))
    assert.ok(form, `no form ${action} in ${landing.page}`)
    const hidden = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)]
    const body = new URLSearchParams([
      ...hidden.map(([, name = '', value = '']) => [name, value]),
      ...Object.entries(fields),
    ])
    return this.open(/action="([^"]+)"/.exec(form)?.[1] ?? '', { ...init, method: 'POST', body })
  }

  #cookiesFor(path: string): string {
    return [...this.#jar]
      .filter(([, cookie]) => path === cookie.path || path.startsWith(cookie.path.replace(/\/?$/, '/')))
      .map(([key, { value }]) => `${key.split(';')[0]}=${value}`)
      .join('; ')
  }

  #keep(headers: Headers): void {
    for (const line of headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split('; ')
      const [name = '', value = ''] = pair.split('=')
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/'
      const isGone = attributes.some((one) => /^expires=Thu, 01 Jan 1970/i.test(one))
      if (isGone) this.#jar.delete(`${name};${path}`)
      else this.#jar.set(`${name};${path}`, { value, path })
    }
  }
}

/** Signs in, consents, and gives where the browser was sent then. */
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

/** A code verifier and the parameters of an authorization request for it. */
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

/** The whole flow of a client, up to its tokens. */
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
