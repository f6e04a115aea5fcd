import { createLocalJWKSet, jwtVerify } from 'jose'
import type { KoaContextWithOIDC } from 'oidc-provider'
import type { Services } from '../../services.ts'
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
    readonly services: Pick<Services, 'keys' | 'publicUrl'>
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
    const grantId = await grantOf(String(params?.token), { ...services, clientId: client?.clientId })
    if (grantId !== undefined) await endGrant(ctx, grantId)
    ctx.status = 200
    ctx.body = ''
  })
}

/** Names the grant of an access token that we issued to this client and that is in force. */
async function grantOf(
  token: string,
  issuer: Pick<Services, 'keys' | 'publicUrl'> & { readonly clientId: string | undefined },
): Promise<string | undefined> {
  try {
    const { payload } = await jwtVerify(token, createLocalJWKSet(issuer.keys.published), {
      issuer: issuer.publicUrl,
      typ: 'at+jwt',
      algorithms: ['ES256'],
    })
    return payload.client_id === issuer.clientId ? String(payload.sid) : undefined
  } catch {
    return undefined
  }
}
