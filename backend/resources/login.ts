import { Type } from 'typebox'
import { originOf } from '../identity/attempt-origin.ts'
import { openSession } from '../identity/session-store.ts'
import { signIn } from '../identity/sign-in.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'
import { tooManyAttempts } from './present-password.ts'
import { TokenResponse, tokenResponse } from './sessions.ts'
import { Email } from './users.ts'

const LoginBody = Type.Object(
  {
    email: Email,
    password: Type.String({ minLength: 1, maxLength: 1024, examples: ['demo-password'] }),
  },
  { additionalProperties: false },
)

/** POST /api/login: e-mail address and password for an access token and a refresh token. */
export function registerLogin(app: App, services: Services): void {
  app.post(
    '/api/login',
    {
      schema: {
        operationId: 'login',
        summary: 'Log in with e-mail address and password',
        description:
          'After five wrong passwords in a row for an address, from where the caller is, each further attempt has to ' +
          'wait, at first a second, at most 15 minutes; the sign-in page of OAuth counts the same attempts. Places from ' +
          'which nobody signed in to the account in the last 30 days share 100 attempts and one more each five minutes.',
        tags: ['session'],
        body: LoginBody,
        response: { 200: TokenResponse, ...problemResponses(401, 413, 415) },
      },
    },
    async (request) => {
      const { database, clock } = services
      const result = await signIn(database, { ...request.body, origin: originOf(request) }, clock())
      switch (result.outcome) {
        case 'signed_in': {
          const session = await openSession(database, result.user, clock())
          if (session === undefined) throw new Problem('wrong_credentials')
          return tokenResponse(services, session)
        }
        case 'throttled':
          throw tooManyAttempts(result.retryAfterSeconds)
        case 'wrong':
          throw new Problem('wrong_credentials')
      }
    },
  )
}
