import type { X509Certificate } from 'node:crypto'
import type { FastifyBaseLogger } from 'fastify'
import type { AccessToken, Configuration, KoaContextWithOIDC, ResourceServer } from 'oidc-provider'
import type { Database } from '../../database/database.ts'
import type { Services } from '../../services.ts'
import { type NameLater, REVOKE_SESSION } from '../revoke-session.ts'
import { ACCESS_TOKEN_SECONDS, verifyAccessToken } from '../session-tokens.ts'
import { findAccount, type UserAccount } from './account.ts'
import { artifactStore, deleteGrant, noteAccessToken } from './artifacts.ts'
import {
  CERTIFICATE_ISSUERS,
  CERTIFICATE_NAMES,
  certificateNames,
  clientCertificate,
  isIssuedByOneOf,
  readIssuers,
} from './client-certificate.ts'
import { errors, Provider } from './library.ts'
import { errorPage, type Page, signedOutPage, signOutPage } from './pages/pages.ts'
import { metadata, OAUTH_PATHS, policyConfiguration } from './policy.ts'
import { changeAtEnd, providerDatabase, storeTogether, whenStored } from './provider-database.ts'
import { apiScopesOfClient, grantable, grantedScope, type TokenResponse } from './scopes.ts'

export const INTERACTION_PATH = '/oauth/interaction'

/** Gives the provider with the present signing keys. Ask at each request: a provider keeps the keys that it was made with. */
export interface AuthorizationServer {
  instance(): Provider
}

export async function createAuthorizationServer(
  services: Services,
  logger: FastifyBaseLogger,
  nameLater: NameLater,
): Promise<AuthorizationServer> {
  let made: { readonly keys: string; readonly provider: Provider } | undefined
  const instance = () => {
    const keys = services.keys.privateKeys.map(({ kid }) => kid).join()
    if (made?.keys !== keys) made = { keys, provider: createProvider(services, logger, nameLater) }
    return made.provider
  }
  for (const { client_id, token_endpoint_auth_method: method, ...written } of services.clients) {
    if (method === 'tls_client_auth' && !CERTIFICATE_NAMES.some((name) => written[name] !== undefined))
      throw new Error(`OAuth client ${client_id}: tls_client_auth needs ${CERTIFICATE_NAMES.join(' or ')}`)
    if (method === 'tls_client_auth' && written[CERTIFICATE_ISSUERS] === undefined)
      logger.warn(
        { client: client_id },
        `${CERTIFICATE_ISSUERS} is not set: every authority that the gateway accepts can issue this client's certificate`,
      )
    try {
      await instance().Client.find(client_id)
    } catch (cause) {
      const { message, error_description } = cause as InstanceType<typeof errors.OIDCProviderError>
      throw new Error(`OAuth client ${client_id}: ${error_description ?? message}`, { cause })
    }
  }
  return { instance }
}

function createProvider(services: Services, logger: FastifyBaseLogger, nameLater: NameLater): Provider {
  const database = providerDatabase(services.database)
  const provider = new Provider(services.publicUrl, configuration(services, database))
  // protocol-routes.ts has put the public URL into the forwarded headers.
  provider.proxy = true
  const announce = (ctx: KoaContextWithOIDC, grantId: string) => {
    // A gateway that has hung up does not see this response.
    if (ctx.req.socket.destroyed) nameLater(grantId)
    else ctx.append(REVOKE_SESSION, grantId)
    logger.info({ sessionId: grantId, requestId: ctx.get('x-request-id') }, 'a grant was revoked')
  }
  storeTogether(provider, {
    database,
    paths: [OAUTH_PATHS.token, OAUTH_PATHS.revocation],
    endGrant: async (ctx, grantId) => {
      await deleteGrant(database, grantId)
      announce(ctx, grantId)
    },
  })
  const announceWhenStored = (ctx: KoaContextWithOIDC, grantId: string) =>
    whenStored(() => announce(ctx, grantId))
  provider.on('grant.revoked', announceWhenStored)
  provider.use(async (ctx: KoaContextWithOIDC, next) => {
    await next()
    if (ctx.path === OAUTH_PATHS.token && ctx.status === 200) {
      const { AuthorizationCode: code, RefreshToken: refreshed } = ctx.oidc.entities
      const response = ctx.body as TokenResponse
      ctx.body = { ...response, scope: grantedScope(response, (code ?? refreshed)?.scope) }
    }
    if (ctx.path === OAUTH_PATHS.revocation) await revokeAccessToken(ctx)
  })
  /**
   * Revokes an access token (RFC 7009) by ending its grant, because oidc-provider does not revoke JWTs. Every token
   * gets 200 (section 2.2).
   */
  const revokeAccessToken = async (ctx: KoaContextWithOIDC) => {
    if ((ctx.body as { error?: string } | undefined)?.error !== 'unsupported_token_type') return
    const { client, params } = ctx.oidc
    const claims = verifyAccessToken(services, String(params?.token))
    if (claims !== undefined && claims.client_id === client?.clientId) {
      const grantId = String(claims.sid)
      await changeAtEnd(database, 'answered', (transaction) => deleteGrant(transaction, grantId))
      announceWhenStored(ctx, grantId)
    }
    ctx.status = 200
    ctx.body = ''
  }
  provider.on('server_error', (ctx, err) => {
    logger.error({ err, requestId: ctx.get('x-request-id') }, 'the authorization server failed')
  })
  return provider
}

function configuration(services: Services, database: Database): Configuration {
  return {
    ...policyConfiguration(),
    adapter: (model: string) => artifactStore(model, database),
    clients: [...services.clients],
    extraClientMetadata: { properties: [CERTIFICATE_ISSUERS], validator: checkMetadata },
    jwks: { keys: services.keys.privateKeys.map((key) => ({ ...key })) },
    routes: OAUTH_PATHS,
    discovery: metadata(services),
    features: features(services),
    extraTokenClaims: (_ctx, token) => sessionClaim(database, token as AccessToken),
    findAccount: (_ctx, id) => findAccount(database, id),
    interactions: { url: (_ctx, { uid }) => `${INTERACTION_PATH}?id=${uid}` },
    renderError: (ctx, { error, error_description: detail }) =>
      show(ctx, errorPage(services.publicUrl, { error, detail })),
  }
}

function checkMetadata(_ctx: unknown, name: string, value: unknown): void {
  if (value === undefined || readIssuers(value) !== undefined) return
  throw new errors.InvalidClientMetadata(
    `${name} must be a list of certificates of authorities, in base64 (DER)`,
  )
}

/** Records the token. Returns its grant id as `sid`, by which the gateway revokes it. */
async function sessionClaim(database: Database, { grantId }: AccessToken): Promise<{ sid: string }> {
  if (grantId === undefined) throw new errors.InvalidGrant('a token without a grant')
  const token = { grantId, expiresAtMs: Date.now() + ACCESS_TOKEN_SECONDS * 1000 }
  await changeAtEnd(database, 'issued', (transaction) => noteAccessToken(transaction, token))
  return { sid: grantId }
}

function features({ publicUrl, secrets }: Services): NonNullable<Configuration['features']> {
  const api = `${publicUrl}/api`
  return {
    devInteractions: { enabled: false },
    // Access tokens are for the API only.
    userinfo: { enabled: false },
    revocation: {
      enabled: true,
      allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId,
    },
    pushedAuthorizationRequests: { enabled: true },
    dPoP: { enabled: true, nonceSecret: secrets.dpopNonce, requireNonce: () => true },
    mTLS: {
      enabled: true,
      certificateBoundAccessTokens: true,
      tlsClientAuth: true,
      getCertificate: certificateOf,
      certificateAuthorized: (ctx) => certificateOf(ctx) !== undefined,
      certificateSubjectMatches: (ctx, property, expected) => {
        const certificate = certificateOf(ctx)
        return (
          certificate !== undefined &&
          certificateNames(certificate, property, expected) &&
          isIssuedByOneOf(ctx.oidc.client?.[CERTIFICATE_ISSUERS], certificate)
        )
      },
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => api,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource, client) => {
        if (resource !== api) throw new errors.InvalidTarget()
        return resourceServer(ctx, { api, clientScope: client.scope })
      },
    },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (ctx, form) => {
        const leadsTo = ctx.oidc.params?.post_logout_redirect_uri as string | undefined
        show(ctx, signOutPage(publicUrl, { form, leadsTo }))
      },
      postLogoutSuccessSource: (ctx) => show(ctx, signedOutPage(publicUrl)),
    },
  }
}

/** The API as a resource (RFC 8707), with the scopes that client and user may both have. */
function resourceServer(
  { oidc }: KoaContextWithOIDC,
  { api, clientScope }: { readonly api: string; readonly clientScope: string | undefined },
): ResourceServer {
  const scopes = apiScopesOfClient(clientScope)
  // The removal of a role takes effect at the next refresh.
  const account = oidc.account as UserAccount | undefined
  return {
    audience: api,
    scope: (account === undefined ? scopes : grantable(scopes, account.role)).join(' '),
    accessTokenFormat: 'jwt',
    accessTokenTTL: ACCESS_TOKEN_SECONDS,
    jwt: { sign: { alg: 'ES256' } },
  }
}

function certificateOf(ctx: KoaContextWithOIDC): X509Certificate | undefined {
  return clientCertificate(ctx.req.headers['client-cert'])
}

function show(ctx: KoaContextWithOIDC, page: Page): void {
  ctx.set({ ...page.headers })
  ctx.body = page.html
}
