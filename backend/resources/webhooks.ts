import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { v7 as uuid } from 'uuid'
import { callerOf } from '../caller.ts'
import { invalidField, Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

const BODY_LIMIT_BYTES = 1024 * 1024
const MAX_ID_CHARACTERS = 256

const WebhookPath = Type.Object({
  source: Type.String({
    pattern: '^[A-Za-z0-9_-]{1,64}$',
    description: 'what sends it: 1 to 64 letters, digits, "-" and "_"',
  }),
})

/** POST /api/webhooks/{source}: stores a webhook once. */
export async function registerWebhooks(app: App, { database, clock }: Services): Promise<void> {
  await app.register(async (scope: App) => {
    // Stores exactly the bytes that were signed.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: BODY_LIMIT_BYTES },
      (_request, body, done) => done(null, body),
    )
    scope.post(
      '/api/webhooks/:source',
      { schema: WEBHOOK_SCHEMA, bodyLimit: BODY_LIMIT_BYTES },
      async (request, reply) => {
        const client = requireSigner(request)
        const stored = await database.query(
          `INSERT INTO webhooks (id, client, source, webhook_id, content_type, body, received_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7)
           ON CONFLICT (client, source, webhook_id) DO NOTHING RETURNING id`,
          [
            uuid(),
            client,
            request.params.source,
            webhookId(request),
            request.headers['content-type'] ?? null,
            request.body instanceof Uint8Array ? request.body : new Uint8Array(),
            clock(),
          ],
        )
        if (stored.length === 0) reply.header('idempotency-replayed', 'true')
        // Null would be sent as text.
        return reply.code(202).send(undefined as never)
      },
    )
  })
}

const WEBHOOK_SCHEMA = {
  operationId: 'receiveWebhook',
  summary: 'Take in a webhook',
  description:
    'Signed by Standard Webhooks 1.0; the gateway checks key, signature, time and replay. The body is kept as it came, ' +
    'whatever its media type. The same webhook-id of one caller and source is kept once: a repetition is accepted ' +
    'again, with Idempotency-Replayed: true, and changes nothing.',
  tags: ['webhooks'],
  security: [{ webhook: [] }],
  params: WebhookPath,
  headers: Type.Object({
    'webhook-id': Type.String({
      minLength: 1,
      maxLength: MAX_ID_CHARACTERS,
      description: 'Names this webhook.',
      examples: ['msg_p5jXN8AQM9LWM0D4loKWxJek'],
    }),
  }),
  consumes: ['application/json', 'application/octet-stream'],
  body: Type.Unsafe<unknown>({ description: 'Up to 1 MiB.' }),
  response: {
    202: Type.Null({ description: 'Kept, now or before.' }),
    ...problemResponses(401, 409, 413, 415),
  },
}

/** The machine that signed the request; a bearer token is not enough. */
function requireSigner(request: FastifyRequest): string {
  const { client } = callerOf(request)
  if (client === undefined || request.headers['x-auth-method'] !== 'hmac')
    throw new Problem('unauthenticated')
  return client
}

function webhookId(request: FastifyRequest): string {
  const id = request.headers['webhook-id']
  if (typeof id !== 'string' || id === '' || id.length > MAX_ID_CHARACTERS) {
    throw invalidField('webhook-id', `must be one header of 1 to ${MAX_ID_CHARACTERS} characters`)
  }
  return id
}
