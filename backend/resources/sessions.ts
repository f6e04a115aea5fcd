import { Type } from 'typebox'
import { callerOf, isId, requireUser } from '../caller.ts'
import { originOf } from '../identity/attempt-origin.ts'
import { revokeGrant } from '../identity/oauth/artifacts.ts'
import { REVOKE_SESSION } from '../identity/revoke-session.ts'
import {
  exchangeRefreshToken,
  type OpenedSession,
  openSession,
  revokeSession,
} from '../identity/session-store.ts'
import { ACCESS_TOKEN_SECONDS, issueAccessToken } from '../identity/session-tokens.ts'
import { signIn } from '../identity/sign-in.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'
import { tooManyAttempts } from './present-password.ts'
import { Email } from './users.ts'

const TokenResponse = Type.Object(
  {
    accessToken: Type.String({ description: 'A JWT (RFC 9068), to be sent as Authorization: Bearer.' }),
    tokenType: Type.Literal('Bearer'),
    expiresIn: Type.Integer({ description: 'Seconds.', examples: [ACCESS_TOKEN_SECONDS] }),
    refreshToken: Type.String({ description: 'Good for one exchange within 30 days.' }),
  },
  { description: 'The tokens of a session.' },
)

function tokenResponse(services: Services, session: OpenedSession) {
  return {
    accessToken: issueAccessToken(services, session.subject),
    tokenType: 'Bearer' as const,
    expiresIn: ACCESS_TOKEN_SECONDS,
    refreshToken: session.refreshToken,
  }
}

const LoginBody = Type.Object(
  { email: Email, password: Type.String({ minLength: 1, maxLength: 1024, examples: ['demo-password'] }) },
  { additionalProperties: false },
)

const RefreshBody = Type.Object(
  { refreshToken: Type.String({ minLength: 1, maxLength: 256, examples: ['q83vEjRW…'] }) },
  { additionalProperties: false },
)

export function registerSessions(app: App, services: Services): void {
  registerLogin(app, services)
  registerRefresh(app, services)
  registerLogout(app, services)
}

function registerLogin(app: App, services: Services): void {
  const schema = {
    operationId: 'login',
    summary: 'Log in with e-mail address and password',
    description:
      'After five wrong passwords in a row for one e-mail address from one place, each further attempt has to wait: ' +
      'one second at first, 15 minutes at most. The sign-in page of OAuth counts the same attempts. Places from ' +
      'which nobody signed in to the account in the last 30 days share 100 attempts, and one more each five minutes.',
    tags: ['session'],
    body: LoginBody,
    response: { 200: TokenResponse, ...problemResponses(401, 413, 415) },
  }
  app.post('/api/login', { schema }, async (request) => {
    const { database, clock } = services
    const result = await signIn(database, { ...request.body, origin: originOf(request) }, clock())
    if (result.outcome === 'throttled') throw tooManyAttempts(result.retryAfterSeconds)
    const session = result.outcome === 'wrong' ? undefined : await openSession(database, result.user, clock())
    if (session === undefined) throw new Problem('wrong_credentials')
    return tokenResponse(services, session)
  })
}

function registerRefresh(app: App, services: Services): void {
  const schema = {
    operationId: 'refreshSession',
    summary: 'Exchange a refresh token for new tokens',
    description:
      'Each refresh token is good once. Presenting it again, even at the same moment, revokes its session: ' +
      'somebody may have stolen it. There is no grace period: when a response was lost, log in again.',
    tags: ['session'],
    body: RefreshBody,
    response: { 200: TokenResponse, ...problemResponses(401, 413, 415) },
  }
  app.post('/api/session/refresh', { schema }, async (request) => {
    const { database, clock } = services
    const exchange = await exchangeRefreshToken(database, request.body.refreshToken, clock())
    switch (exchange.outcome) {
      case 'rotated':
        return tokenResponse(services, exchange.session)
      case 'reused':
        request.log.warn(
          { sessionId: exchange.sessionId },
          'a refresh token was used again, so its session was revoked',
        )
        throw new Problem('refresh_token_reused', { headers: { [REVOKE_SESSION]: exchange.sessionId } })
      case 'invalid':
        throw new Problem('invalid_refresh_token')
    }
  })
}

function registerLogout(app: App, { database, clock }: Services): void {
  const schema = {
    operationId: 'logout',
    summary: 'End the session of the access token',
    tags: ['session'],
    security: [{ bearer: [] }],
    response: {
      204: Type.Null({
        description:
          'The tokens of the session are refused from now on. If an OAuth client got the token, all tokens of that ' +
          'consent are refused.',
      }),
      ...problemResponses(401, 403, 413, 415),
    },
  }
  app.post('/api/logout', { schema }, async (request, reply) => {
    const userId = requireUser(request)
    const id = callerOf(request).session
    if (id === undefined) throw new Problem('no_session')
    if (isId(id)) await revokeSession(database, { id, userId }, clock())
    // A transaction starts again when it meets a refresh that locks the grant's rows in another order.
    else await database.transaction((transaction) => revokeGrant(transaction, { id, userId }))
    // Names the session even if it ended before, because the response to an earlier logout may have been lost.
    return reply.code(204).header(REVOKE_SESSION, id).send(null)
  })
}
