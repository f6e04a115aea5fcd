import type { Client, Configuration, KoaContextWithOIDC } from 'oidc-provider'
import type { Services } from '../../services.ts'
import { ACCESS_TOKEN_SECONDS } from '../session-tokens.ts'
import { errors } from './library.ts'
import { ALL_SCOPES, DEFAULT_CLIENT_SCOPE } from './scopes.ts'

const CODE_SECONDS = 60
const DAY_SECONDS = 24 * 60 * 60
/** The life of a public client's refresh token, which each use replaces. */
const REFRESH_SECONDS = 30 * DAY_SECONDS
/** The time that a browser stays signed in after its last visit. */
const BROWSER_SECONDS = 30 * 60
export const INTERACTION_SECONDS = 15 * 60

export const INTERACTION_COOKIE = 'oauth_interaction'

/** How far clients' clocks may be ahead (FAPI 2.0 section 5.3.2.1). */
const CLOCK_TOLERANCE_SECONDS = 10

/** The furthest expiry of a client's assertion. It is remembered until then, so that it is good once. */
const ASSERTION_SECONDS = 60 * 60

const SIGNATURES = ['ES256', 'PS256', 'EdDSA', 'Ed25519'] as const

const CLIENT_AUTHENTICATION = ['none', 'private_key_jwt', 'tls_client_auth'] as const

/** Paths that the gateway must route; metadata (RFC 8414) names them to clients. */
export const OAUTH_PATHS = {
  authorization: '/oauth/authorize',
  pushed_authorization_request: '/oauth/par',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  end_session: '/oauth/logout',
  jwks: '/.well-known/jwks.json',
} as const

/** Metadata that oidc-provider does not derive (RFC 8414 section 2, RFC 8705 section 5). */
export function metadata({ mtlsUrl }: Pick<Services, 'mtlsUrl'>): Record<string, unknown> {
  return {
    revocation_endpoint_auth_methods_supported: CLIENT_AUTHENTICATION,
    revocation_endpoint_auth_signing_alg_values_supported: SIGNATURES,
    // JSON leaves `undefined` out. Clients with a certificate then use the usual endpoints.
    mtls_endpoint_aliases: mtlsUrl && {
      token_endpoint: mtlsUrl + OAUTH_PATHS.token,
      revocation_endpoint: mtlsUrl + OAUTH_PATHS.revocation,
      pushed_authorization_request_endpoint: mtlsUrl + OAUTH_PATHS.pushed_authorization_request,
    },
  }
}

/** The authorization server's rules, as in RFC 9700. */
export function policyConfiguration(): Configuration {
  return {
    scopes: [...ALL_SCOPES],
    claims: { openid: ['sub'] },
    responseTypes: ['code'],
    // RFC 9700 section 2.1.1; the library always requires the method S256.
    pkce: { required: () => true },
    clientAuthMethods: [...CLIENT_AUTHENTICATION],
    clientDefaults: {
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'private_key_jwt',
      id_token_signed_response_alg: 'ES256',
      scope: DEFAULT_CLIENT_SCOPE,
    },
    enabledJWA: {
      clientAuthSigningAlgValues: [...SIGNATURES],
      dPoPSigningAlgValues: [...SIGNATURES],
      idTokenSigningAlgValues: ['ES256'],
    },
    // An omitted redirect URI cannot be compared.
    allowOmittingSingleRegisteredRedirectUri: false,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    // Clients are not pages of other origins.
    clientBasedCORS: () => false,
    cookies: {
      names: { session: 'oauth_session', interaction: INTERACTION_COOKIE, resume: 'oauth_resume' },
      long: { httpOnly: true, sameSite: 'lax', path: '/oauth' },
      short: { httpOnly: true, sameSite: 'lax' },
    },
    ttl: {
      AccessToken: ACCESS_TOKEN_SECONDS,
      IdToken: ACCESS_TOKEN_SECONDS,
      AuthorizationCode: CODE_SECONDS,
      RefreshToken: refreshSeconds,
      // Asks the user again after a year, however often the app refreshed.
      Grant: 366 * DAY_SECONDS,
      Session: BROWSER_SECONDS,
      Interaction: INTERACTION_SECONDS,
    },
    rotateRefreshToken: ({ oidc }) => mustRotate(oidc.client),
    assertJwtClientAuthClaimsAndHeader: checkAssertion,
  }
}

/**
 * True for public clients (RFC 9700 section 4.14.2). FAPI 2.0 section 5.3.2.1 advises against rotation for confidential clients,
 * whose tokens are useless without a key or certificate.
 */
function mustRotate(client: Client | undefined): boolean {
  return client?.clientAuthMethod === 'none'
}

/** A refresh token that is never replaced lasts as long as its grant. */
function refreshSeconds({ oidc }: KoaContextWithOIDC, _token: unknown, client: Client): number {
  const grant = oidc.entities.Grant
  return mustRotate(client) || grant === undefined ? REFRESH_SECONDS : Math.max(1, grant.remainingTTL)
}

/** Checks that `aud` is the issuer, as one text (FAPI 2.0 section 5.3.2.1), and that `exp` is near. */
async function checkAssertion(
  { oidc }: KoaContextWithOIDC,
  { aud, exp }: Record<string, unknown>,
): Promise<void> {
  if (aud !== oidc.issuer) throw new errors.InvalidClientAuth(`aud of the assertion must be "${oidc.issuer}"`)
  const latest = Date.now() / 1000 + ASSERTION_SECONDS + CLOCK_TOLERANCE_SECONDS
  if (Number(exp) > latest) throw new errors.InvalidClientAuth('exp of the assertion is too far ahead')
}
