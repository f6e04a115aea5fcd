import type { KoaContextWithOIDC } from 'oidc-provider'
import type { Services } from '../../services.ts'
import { verifyAccessToken } from '../session-tokens.ts'
import type { Provider } from './library.ts'

/**
 * Lets a client revoke an access token (RFC 7009). oidc-provider stores no JWT and so refuses to revoke one, after it has
 * authenticated the client: `unsupported_token_type`. Here the token is verified instead, and the grant that it came from
 * ends, as with a refresh token. A token that is no good, or of another client, gets the 200 that section 2.2 asks for.
 *
 * @param options.endGrant ends a grant and tells the gateway
 */
export function revokeAccessTokens(
  provider: Provider,
  options: {
    readonly services: Pick<Services, 'keys' | 'publicUrl' | 'clock'>
    readonly path: string
    readonly endGrant: (ctx: KoaContextWithOIDC, grantId: string) => Promise<void>
  },
): void {
  const { services, path, endGrant } = options
  provider.use(async (ctx: KoaContextWithOIDC, next) => {
    await next()
    if (ctx.path !== path || (ctx.body as { error?: string } | undefined)?.error !== 'unsupported_token_type')
      return
    const { client, params } = ctx.oidc
    const claims = verifyAccessToken(services, String(params?.token))
    if (claims !== undefined && claims.client_id === client?.clientId) await endGrant(ctx, String(claims.sid))
    ctx.status = 200
    ctx.body = ''
  })
}
