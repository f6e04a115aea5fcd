import { Type } from 'typebox'
import { callerOf, isId, requireUser } from '../caller.ts'
import { revokeGrant } from '../identity/oauth/artifacts.ts'
import { REVOKE_SESSION } from '../identity/revoke-session.ts'
import { exchangeRefreshToken, type OpenedSession, revokeSession } from '../identity/session-store.ts'
import { ACCESS_TOKEN_SECONDS, issueAccessToken } from '../identity/session-tokens.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

/** What a login and a refresh respond with. */
export const TokenResponse = Type.Object(
  {
    accessToken: Type.String({ description: 'A JWT (RFC 9068), to be sent as Authorization: Bearer.' }),
    tokenType: Type.Literal('Bearer'),
    expiresIn: Type.Integer({ description: 'Seconds.', examples: [ACCESS_TOKEN_SECONDS] }),
    refreshToken: Type.String({ description: 'Good for one exchange within 30 days.' }),
  },
  { description: 'The tokens of a session.' },
)

/** The tokens of a session as the API returns them. */
export function tokenResponse(services: Services, session: OpenedSession) {
  return {
    accessToken: issueAccessToken(services, session.subject),
    tokenType: 'Bearer' as const,
    expiresIn: ACCESS_TOKEN_SECONDS,
    refreshToken: session.refreshToken,
  }
}

const RefreshBody = Type.Object(
  { refreshToken: Type.String({ minLength: 1, maxLength: 256, examples: ['q83vEjRW…'] }) },
  { additionalProperties: false },
)

/** POST /api/session/refresh and POST /api/logout. */
export function registerSessions(app: App, services: Services): void {
  registerRefresh(app, services)
  registerLogout(app, services)
}

function registerRefresh(app: App, services: Services): void {
  app.post(
    '/api/session/refresh',
    {
      schema: {
        operationId: 'refreshSession',
        summary: 'Exchange a refresh token for new tokens',
        description:
          'Each refresh token is good once. Presenting it again, even at the same moment, revokes its session: ' +
          'somebody may have stolen it. There is no time of grace for a response that was lost; log in again then.',
        tags: ['session'],
        body: RefreshBody,
        response: { 200: TokenResponse, ...problemResponses(401, 413, 415) },
      },
    },
    async (request) => {
      const exchange = await exchangeRefreshToken(
        services.database,
        request.body.refreshToken,
        services.clock(),
      )
      switch (exchange.outcome) {
        case 'rotated':
          return tokenResponse(services, exchange.session)
        case 'reused':
          request.log.warn({ sessionId: exchange.sessionId }, 'refresh token reused, session revoked')
          throw new Problem('refresh_token_reused', { headers: { [REVOKE_SESSION]: exchange.sessionId } })
        case 'invalid':
          throw new Problem('invalid_refresh_token')
      }
    },
  )
}

function registerLogout(app: App, services: Services): void {
  app.post(
    '/api/logout',
    {
      schema: {
        operationId: 'logout',
        summary: 'End the session of the access token',
        tags: ['session'],
        security: [{ bearer: [] }],
        response: {
          204: Type.Null({
            description:
              'The tokens of the session are refused from now on. For a token that an OAuth client got, all that the ' +
              'user allowed it in that consent ends.',
          }),
          ...problemResponses(401, 403, 413, 415),
        },
      },
    },
    async (request, reply) => {
      const userId = requireUser(request)
      const { session } = callerOf(request)
      if (session === undefined || !(await endSession(services, { id: session, userId }))) {
        throw new Problem('no_session')
      }
      return reply.code(204).header(REVOKE_SESSION, session).send(null)
    },
  )
}

/** Ends a session that was opened with a password, or a grant; false when it is neither. */
async function endSession(
  { database, clock }: Services,
  session: { readonly id: string; readonly userId: string },
): Promise<boolean> {
  // In a transaction, which starts again when it meets a refresh that locks rows of the grant in another order.
  if (!isId(session.id)) return database.transaction((transaction) => revokeGrant(transaction, session))
  await revokeSession(database, session, clock())
  return true
}
