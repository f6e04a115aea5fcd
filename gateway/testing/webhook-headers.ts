import { createHmac, randomUUID } from 'node:crypto'

export interface Webhook {
  /** The `hmac.keyId` of a client in clients.json. */
  readonly keyId: string
  /** `whsec_` and the key in base64, as in the environment variable or file that clients.json names. */
  readonly secret: string
  /** Exactly as it is sent. */
  readonly body: string | Buffer
  /** Default: a new one. The same id, time and body again are a replay. */
  readonly id?: string
  /** Seconds since the epoch; default: now. */
  readonly timestamp?: number
}

/** The headers of a signed webhook (Standard Webhooks 1.0). */
export function webhookHeaders({ keyId, secret, body, ...rest }: Webhook): Record<string, string> {
  const { id = `msg_${randomUUID()}`, timestamp = Math.floor(Date.now() / 1000) } = rest
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
  return {
    'x-api-key': keyId,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  }
}
