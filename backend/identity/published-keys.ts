import { Type } from 'typebox'
import { problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'
import { Jwk } from './keys.ts'

export function registerJwks(app: App, { keys }: Services): void {
  const schema = {
    operationId: 'getSigningKeys',
    summary: 'The keys that access tokens are verified with',
    tags: ['session'],
    response: {
      200: Type.Object({ keys: Type.Array(Jwk) }, { description: 'A JSON Web Key Set (RFC 7517).' }),
      ...problemResponses(),
    },
  }
  app.get('/.well-known/jwks.json', { schema }, async () => keys.published)
}
