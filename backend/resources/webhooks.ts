import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { v7 as uuid } from 'uuid'
import { callerOf } from '../caller.ts'
import type { Queryable } from '../database/database.ts'
import { invalidField, Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

/** What is too old is deleted each hour. */
const FULL_RETRY_SECONDS = 60 * 60

const BODY_LIMIT_BYTES = 1024 * 1024
const MAX_ID_CHARACTERS = 256

const WebhookPath = Type.Object({
  source: Type.String({
    pattern: '^[A-Za-z0-9_-]{1,64}$',
    description: 'what sends it: 1 to 64 letters, digits, "-" and "_"',
  }),
})

/** POST /api/webhooks/{source}: stores a webhook once. */
export async function registerWebhooks(
  app: App,
  { database, clock, webhookClientMaxBytes }: Services,
): Promise<void> {
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
        const webhook = {
          client: requireSigner(request),
          source: request.params.source,
          id: webhookId(request),
          contentType: request.headers['content-type'],
          body: request.body instanceof Uint8Array ? request.body : new Uint8Array(),
        }
        const isNew = await keep(database, webhook, { now: clock(), maxBytes: webhookClientMaxBytes })
        if (!isNew) reply.header('idempotency-replayed', 'true')
        // Null would be sent as text.
        return reply.code(202).send(undefined as never)
      },
    )
  })
}

interface Webhook {
  readonly client: string
  readonly source: string
  readonly id: string
  readonly contentType: string | undefined
  readonly body: Uint8Array
}

/** @returns false: it was kept before. Throws the 429 when `maxBytes` or more of its sender are kept. */
async function keep(
  database: Queryable,
  webhook: Webhook,
  { now, maxBytes }: { readonly now: Date; readonly maxBytes: number },
): Promise<boolean> {
  const { client, source, id, contentType, body } = webhook
  const stored = await database.query(
    `INSERT INTO webhooks (id, client, source, webhook_id, content_type, body, received_at)
     SELECT $1::uuid, $2::text, $3::text, $4::text, $5::text, $6::bytea, $7::timestamptz
      WHERE NOT EXISTS (SELECT 1 FROM webhook_usage WHERE client = $2 AND bytes >= $8)
     ON CONFLICT (client, source, webhook_id) DO NOTHING RETURNING id`,
    [uuid(), client, source, id, contentType ?? null, body, now, maxBytes],
  )
  if (stored.length > 0) return true
  const known = await database.query(
    'SELECT 1 AS known FROM webhooks WHERE client = $1 AND source = $2 AND webhook_id = $3',
    [client, source, id],
  )
  if (known.length > 0) return false
  throw new Problem('too_many_webhooks', { headers: { 'retry-after': String(FULL_RETRY_SECONDS) } })
}

const WEBHOOK_SCHEMA = {
  operationId: 'receiveWebhook',
  summary: 'Take in a webhook',
  description:
    'Signed by Standard Webhooks 1.0; the gateway checks key, signature, time and replay. The body is kept as it came, ' +
    'whatever its media type. The same webhook-id of one caller and source is kept once: a repetition is accepted ' +
    'again, with Idempotency-Replayed: true, and changes nothing. It is kept for 30 days, and of one caller at most 1 GiB ' +
    'at a time (429), unless the operator says otherwise.',
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
