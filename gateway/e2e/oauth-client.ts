import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importJWK } from 'jose'
import * as client from 'openid-client'
import { FormBrowser } from '../../backend/testing/form-browser.ts'
import type { TestService } from './running-service.ts'

export const ALICE = { email: 'alice@example.com', password: 'demo-password' }

/** The demo clients' redirect addresses; nothing listens there. */
export const REDIRECTS = {
  'mobile-app': 'http://127.0.0.1:49152/callback',
  'bank-portal': 'https://portal.example.com/callback',
} as const

type DemoClient = keyof typeof REDIRECTS

/** Discovers the service as an application does; `bank-portal` has the demo's key. */
export async function discover(service: TestService, clientId: DemoClient): Promise<client.Configuration> {
  const authentication = clientId === 'mobile-app' ? client.None() : await portalKey(service)
  return client.discovery(new URL(service.url), clientId, undefined, authentication, {
    execute: [client.allowInsecureRequests],
  })
}

async function portalKey({ backendDir }: TestService): Promise<client.ClientAuth> {
  const jwk = JSON.parse(readFileSync(join(backendDir, 'bank-portal.private.jwk.json'), 'utf8')) as object
  return client.PrivateKeyJwt((await importJWK(jwk, 'ES256')) as client.CryptoKey)
}

interface FlowOptions {
  readonly scope?: string
  /** For clients that are not in the demo. */
  readonly redirectUri?: string
  /** The client pushes the request (RFC 9126). */
  readonly pushed?: boolean
  readonly dpop?: client.DPoPHandle
}

/** What the application has after the browser's return. */
interface Authorized {
  readonly back: URL
  readonly checks: client.AuthorizationCodeGrantChecks
}

/** Requests access; Alice signs in and allows it. */
export async function authorize(
  config: client.Configuration,
  options: FlowOptions = {},
): Promise<Authorized> {
  const { client_id: clientId } = config.clientMetadata()
  const pkceCodeVerifier = client.randomPKCECodeVerifier()
  const expectedState = client.randomState()
  const parameters = {
    redirect_uri: options.redirectUri ?? REDIRECTS[clientId as DemoClient],
    scope: options.scope ?? 'openid offline_access accounts:read',
    prompt: 'consent',
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
    state: expectedState,
  }
  const dpop = options.dpop === undefined ? undefined : { DPoP: options.dpop }
  const start = options.pushed
    ? await client.buildAuthorizationUrlWithPAR(config, parameters, dpop)
    : client.buildAuthorizationUrl(config, parameters)
  const back = await signInAndAllow(new FormBrowser(start.origin), start)
  return { back, checks: { pkceCodeVerifier, expectedState } }
}

/** Returns where the browser was sent. */
async function signInAndAllow(browser: FormBrowser, start: URL): Promise<URL> {
  const signIn = await browser.open(start)
  const consent = await browser.submit(signIn, '/login', ALICE)
  assert.match(consent.page, /<h1>Allow/)
  return (await browser.submit(consent, '/consent')).url
}

export async function tokensFor(config: client.Configuration, options: FlowOptions = {}) {
  const { back, checks } = await authorize(config, options)
  const dpop = options.dpop === undefined ? undefined : { DPoP: options.dpop }
  return client.authorizationCodeGrant(config, back, checks, undefined, dpop)
}
