import { maxHeaderSize, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { v7 as uuid } from 'uuid'
import { DatabaseBusyError, DatabaseUnavailableError, OutcomeUnknownError } from './database/database.ts'
import { requireGateway } from './gateway-secret.ts'
import { registerInteraction } from './identity/oauth/interaction.ts'
import { registerOAuthProtocol } from './identity/oauth/protocol-routes.ts'
import { createAuthorizationServer } from './identity/oauth/server.ts'
import { registerJwks } from './identity/published-keys.ts'
import { packRevokedSessions } from './identity/revoke-session.ts'
import { PROBLEM_MEDIA_TYPE, Problem, type ProblemCode, problemBody } from './problems.ts'
import { closeConnections } from './process/shut-down.ts'
import { registerBalance } from './resources/balance.ts'
import { registerData } from './resources/data.ts'
import { registerDocs } from './resources/reference/docs.ts'
import { registerSessions } from './resources/sessions.ts'
import { registerTransfer } from './resources/transfer.ts'
import { registerUsers } from './resources/users.ts'
import { registerVerify } from './resources/verify.ts'
import { registerWebhooks } from './resources/webhooks.ts'
import type { App, Services } from './services.ts'
import { compileSchema, fieldFaults, readJsonBodies } from './validation.ts'

const BODY_LIMIT_BYTES = 64 * 1024
const REQUEST_TIMEOUT_MS = 30_000
/** Longer than the gateway keeps connections, so that the backend never closes one that a request is about to use. */
const KEEP_ALIVE_MS = 75_000

/** The form of the gateway's request ids. An id of another form is replaced, because ids go into the log. */
const REQUEST_ID = /^[A-Za-z0-9._:/+=@-]{1,128}$/

export async function buildApp(services: Services, logger: FastifyBaseLogger): Promise<App> {
  const app = fastify({
    loggerInstance: logger,
    // The gateway's audit trail records every request.
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    genReqId: (request) => {
      const id = request.headers['x-request-id']
      return typeof id === 'string' && REQUEST_ID.test(id) ? id : uuid()
    },
    bodyLimit: BODY_LIMIT_BYTES,
    // Schemas bound the parameters, because a schema's error names the parameter. The router's error would not.
    routerOptions: { maxParamLength: maxHeaderSize },
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: 'idle',
    // A request on an open connection still gets its response while the process stops.
    return503OnClosing: false,
    clientErrorHandler: respondToUnparsed,
    frameworkErrors: (_error, request, reply) =>
      void sendProblem(new Problem('malformed_target'), request, reply),
  }).withTypeProvider<TypeBoxTypeProvider>()

  closeConnections(app)
  app.removeContentTypeParser('text/plain')
  readJsonBodies(app)
  app.setValidatorCompiler(compileSchema)
  app.setErrorHandler((error: Error, request, reply) => sendProblem(toProblem(error), request, reply))
  refuseOtherMethods(app)
  if (services.gatewaySecret !== undefined) requireGateway(app, services.gatewaySecret)
  app.addHook('onSend', async (request, reply) => void reply.header('x-request-id', request.id))
  const nameLater = packRevokedSessions(app)

  await registerDocs(app, services)
  registerSessions(app, services)
  registerUsers(app, services)
  registerData(app)
  registerBalance(app, services)
  registerTransfer(app, services)
  registerVerify(app, services)
  await registerWebhooks(app, services)
  registerJwks(app, services)
  const server = await createAuthorizationServer(services, logger, nameLater)
  await registerOAuthProtocol(app, services, server)
  await registerInteraction(app, services, server)
  // The gateway does not route these probes. /healthz ignores the database, because a restart would not repair it.
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))
  app.get('/readyz', { schema: { hide: true } }, async () => {
    await services.database.probe()
    return { status: 'ok' }
  })
  await app.ready()
  return app
}

/** Gives 405 and Allow (RFC 9110 section 15.5.6) when a path has only other methods. Call it before adding routes. */
function refuseOtherMethods(app: App): void {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    // Only the assets of the documentation have wildcards.
    if (url.includes('*')) return
    const literal = url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    routes.push({ pattern: new RegExp(`^${literal.replace(/:[^/]+/g, '[^/]+')}$`), methods: [method].flat() })
  })
  app.setNotFoundHandler((request) => {
    const path = request.url.replace(/\?.*$/s, '')
    const methods = new Set(routes.flatMap((route) => (route.pattern.test(path) ? route.methods : [])))
    if (methods.size === 0) throw new Problem('not_found')
    throw new Problem('method_not_allowed', { headers: { allow: [...methods].sort().join(', ') } })
  })
}

const PARSER_FAULTS: Readonly<Record<string, ProblemCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Responds to what Node's parser cannot read, and closes the connection. */
function respondToUnparsed(fault: Error & { readonly code?: string }, socket: Socket): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const problem = new Problem(PARSER_FAULTS[fault.code ?? ''] ?? 'malformed_message')
  const body = problemBody(problem, uuid())
  socket.write(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\nConnection: close\r\n` +
      `Content-Type: ${PROBLEM_MEDIA_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  // end() would wait for the other side to end too.
  socket.destroySoon()
}

const REQUEST_FAULTS: Readonly<Record<string, ProblemCode>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
}

function toProblem(error: Error & Partial<FastifyError>): Problem {
  if (error instanceof Problem) return error
  if (error.validation !== undefined) {
    return new Problem('invalid_request', { errors: fieldFaults(error.validation as never) })
  }
  // oidc-provider's errors have the database's fault as cause.
  for (const fault of [error, error.cause]) {
    if (fault instanceof DatabaseBusyError) return new Problem('busy', { cause: fault })
    if (fault instanceof OutcomeUnknownError) return new Problem('outcome_unknown', { cause: fault })
    if (fault instanceof DatabaseUnavailableError)
      return new Problem('database_unavailable', { cause: fault })
  }
  const code = REQUEST_FAULTS[error.code ?? '']
  if (code !== undefined) return new Problem(code, { cause: error })
  // A body that cannot be read as JSON, or is shorter than its Content-Length.
  if (error.statusCode === 400) return new Problem('malformed_body', { cause: error })
  return new Problem('internal', { cause: error })
}

function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  // While the database is away every request fails here, and a stack trace adds nothing.
  if (problem.cause instanceof DatabaseUnavailableError) request.log.warn(problem.cause.message)
  else if (problem.status >= 500)
    request.log.error({ err: problem.cause, code: problem.code }, 'a request failed')
  return reply
    .code(problem.status)
    .headers(problem.headers)
    .type(PROBLEM_MEDIA_TYPE)
    .serializer((body: string) => body)
    .send(problemBody(problem, request.id))
}
