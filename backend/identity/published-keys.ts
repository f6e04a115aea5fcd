import { Type } from 'typebox'
import { problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

const JwksResponse = Type.Object(
  {
    keys: Type.Array(
      Type.Object({
        kty: Type.String({ examples: ['EC'] }),
        crv: Type.String({ examples: ['P-256'] }),
        x: Type.String(),
        y: Type.String(),
        kid: Type.String(),
        alg: Type.String({ examples: ['ES256'] }),
        use: Type.String({ examples: ['sig'] }),
      }),
    ),
  },
  { description: 'A JSON Web Key Set (RFC 7517).' },
)

/** GET /.well-known/jwks.json: the public keys with which access tokens are verified. */
export function registerJwks(app: App, { keys }: Services): void {
  app.get(
    '/.well-known/jwks.json',
    {
      schema: {
        operationId: 'getSigningKeys',
        summary: 'The keys that access tokens are verified with',
        tags: ['session'],
        response: { 200: JwksResponse, ...problemResponses() },
      },
    },
    async () => keys.published,
  )
}
