import { Type } from 'typebox'
import { v7 as uuid } from 'uuid'
import { callerOf } from '../caller.ts'
import { Problem, problemResponses } from '../problems.ts'
import type { App, Services } from '../services.ts'

/** Old webhooks are deleted each hour. */
const FULL_RETRY_SECONDS = 60 * 60

const BODY_LIMIT_BYTES = 1024 * 1024

const WebhookPath = Type.Object({
  source: Type.String({
    pattern: '^[A-Za-z0-9_-]{1,64}$',
    description: 'what sends it: 1 to 64 letters, digits, "-" and "_"',
  }),
})

const schema = {
  operationId: 'receiveWebhook',
  summary: 'Take in a webhook',
  description:
    'A webhook is signed by Standard Webhooks 1.0. The gateway checks key, signature, time and replay. The body is ' +
    'kept as it came, whatever its media type. The same webhook-id of one caller and source is kept once: a ' +
    'repetition is accepted again, with Idempotency-Replayed: true, and changes nothing. A webhook is kept for 30 ' +
    'days. If 1 GiB of one caller is kept already, the response is 429. The operator can change both numbers.',
  tags: ['webhooks'],
  security: [{ webhook: [] }],
  params: WebhookPath,
  headers: Type.Object({
    'webhook-id': Type.String({
      minLength: 1,
      maxLength: 256,
      description: 'Names this webhook.',
      examples: ['msg_p5jXN8AQM9LWM0D4loKWxJek'],
    }),
  }),
  consumes: ['application/json', 'application/octet-stream'],
  body: Type.Unsafe<unknown>({ description: 'Up to 1 MiB.' }),
  response: {
    202: Type.Null({ description: 'The webhook is stored, now or by an earlier request.' }),
    ...problemResponses(401, 409, 413, 415),
  },
}

export async function registerWebhooks(app: App, { database, ...services }: Services): Promise<void> {
  await app.register(async (scope: App) => {
    // Stores exactly the signed bytes.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: BODY_LIMIT_BYTES },
      (_request, body, done) => done(null, body),
    )
    const options = { schema, bodyLimit: BODY_LIMIT_BYTES }
    scope.post('/api/webhooks/:source', options, async ({ params, headers, body }, reply) => {
      // Only the machine that signed the request may store it.
      const { client, method } = callerOf({ headers })
      if (client === undefined || method !== 'hmac') throw new Problem('unauthenticated')
      const key = [client, params.source, headers['webhook-id']]
      const stored = await database.query(
        `INSERT INTO webhooks (client, source, webhook_id, id, content_type, body, received_at)
         SELECT $1::text, $2::text, $3::text, $4::uuid, $5::text, $6::bytea, $7::timestamptz
          WHERE NOT EXISTS (SELECT 1 FROM webhook_usage WHERE client = $1 AND bytes >= $8)
         ON CONFLICT (client, source, webhook_id) DO NOTHING RETURNING id`,
        [
          ...key,
          uuid(),
          headers['content-type'] ?? null,
          body instanceof Uint8Array ? body : new Uint8Array(),
          services.clock(),
          services.webhookClientMaxBytes,
        ],
      )
      if (stored.length === 0) {
        const known = await database.query(
          'SELECT 1 AS known FROM webhooks WHERE client = $1 AND source = $2 AND webhook_id = $3',
          key,
        )
        if (known.length === 0)
          throw new Problem('too_many_webhooks', { headers: { 'retry-after': String(FULL_RETRY_SECONDS) } })
        reply.header('idempotency-replayed', 'true')
      }
      // Null would be sent as text.
      return reply.code(202).send(undefined as never)
    })
  })
}
