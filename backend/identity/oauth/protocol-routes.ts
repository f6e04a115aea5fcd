import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App, Services } from '../../services.ts'
import { OAUTH_PATHS } from './policy.ts'
import type { AuthorizationServer } from './server.ts'

const METADATA_PATHS = ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server']

const GET_PATHS = [
  ...METADATA_PATHS,
  OAUTH_PATHS.authorization,
  `${OAUTH_PATHS.authorization}/:id`,
  OAUTH_PATHS.end_session,
  `${OAUTH_PATHS.end_session}/success`,
]

const POST_PATHS = [
  OAUTH_PATHS.pushed_authorization_request,
  OAUTH_PATHS.token,
  OAUTH_PATHS.revocation,
  `${OAUTH_PATHS.end_session}/confirm`,
]

/** The provider adds a hash to script-src. A hash excludes 'none', so the empty script's hash replaces 'none'. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; base-uri 'none'; frame-ancestors 'none'"

/** Hands protocol requests to oidc-provider. Fastify knows their routes, so a stop waits for these requests. */
export async function registerOAuthProtocol(
  app: App,
  services: Services,
  server: AuthorizationServer,
): Promise<void> {
  const ours = new URL(services.publicUrl)
  const forCertificates = new URL(services.mtlsUrl ?? ours)
  const hand = (request: FastifyRequest, reply: FastifyReply) => {
    reply.hijack()
    const { raw } = request
    // The issuer has one name, whatever Host the request has. But the htu of a DPoP proof, which only a POST has, names
    // the address that the proof was sent to (RFC 9449 section 4.2).
    const isAliased = raw.method === 'POST' && raw.headers['x-forwarded-host'] === forCertificates.host
    const { protocol, host } = isAliased ? forCertificates : ours
    raw.headers['x-forwarded-proto'] = protocol.slice(0, -1)
    raw.headers['x-forwarded-host'] = host
    raw.headers['x-request-id'] = request.id
    reply.raw.setHeader('x-request-id', request.id)
    reply.raw.setHeader('content-security-policy', CONTENT_SECURITY_POLICY)
    reply.raw.setHeader('referrer-policy', 'no-referrer')
    void server.instance().callback()(raw, reply.raw)
  }
  await app.register(async (scope) => {
    // The provider reads and bounds bodies.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    const schema = { hide: true }
    for (const url of GET_PATHS) scope.get(url, { schema }, async (request, reply) => hand(request, reply))
    for (const url of POST_PATHS) scope.post(url, { schema }, async (request, reply) => hand(request, reply))
  })
}
