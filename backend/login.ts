import { Type } from 'typebox'
import { verifyPassword } from './identity/passwords.ts'
import { openSession } from './identity/session-store.ts'
import { Problem, problemResponses } from './problems.ts'
import type { App, Services } from './services.ts'
import { TokenAnswer, tokenAnswer } from './sessions.ts'
import { findCredentials } from './user-store.ts'
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
        tags: ['session'],
        body: LoginBody,
        response: { 200: TokenAnswer, ...problemResponses(400, 401, 413, 415, 503) },
      },
    },
    async (request) => {
      const user = await findCredentials(services.database, request.body.email)
      const matches = await verifyPassword(request.body.password, user?.passwordHash)
      if (user === undefined || !matches) throw new Problem('invalid_credentials')
      return tokenAnswer(services, await openSession(services.database, user, services.clock()))
    },
  )
}
