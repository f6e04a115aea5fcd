import type { Services } from '../../services.ts'
import { CLIENT_AUTHENTICATION, SIGNATURES } from './policy.ts'

/** Paths of the authorization server, which the gateway must route. Metadata (RFC 8414) names them to clients. */
export const OAUTH_PATHS = {
  authorization: '/oauth/authorize',
  pushed_authorization_request: '/oauth/par',
  token: '/oauth/token',
  revocation: '/oauth/revoke',
  end_session: '/oauth/logout',
  jwks: '/.well-known/jwks.json',
} as const

/** Metadata that oidc-provider does not derive itself (RFC 8414 section 2, RFC 8705 section 5). */
export function metadata({ mtlsUrl }: Pick<Services, 'mtlsUrl'>): Record<string, unknown> {
  return {
    revocation_endpoint_auth_methods_supported: CLIENT_AUTHENTICATION,
    revocation_endpoint_auth_signing_alg_values_supported: SIGNATURES,
    // Undefined is left out of the JSON: then clients use the same endpoints with and without a certificate.
    mtls_endpoint_aliases: mtlsUrl && {
      token_endpoint: mtlsUrl + OAUTH_PATHS.token,
      revocation_endpoint: mtlsUrl + OAUTH_PATHS.revocation,
      pushed_authorization_request_endpoint: mtlsUrl + OAUTH_PATHS.pushed_authorization_request,
    },
  }
}
