import type { ReplayFault } from '../../auth/replay.ts'
import { quote } from '../../auth/tokens/quote.ts'
import {
  readWebhookHeaders,
  replayKey,
  verifyWebhook,
  WEBHOOK_REFUSED,
  type WebhookMessage,
} from '../../auth/webhook-signature.ts'
import type { WebhookKey } from '../../config/clients-file.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { readWholeBody } from '../body/whole-body.ts'
import { countGuess, refuseGuessing } from './throttle-guesses.ts'

const CHALLENGE = ['WWW-Authenticate', 'Webhook realm="api"']
const NO_BODY = Buffer.alloc(0)
const MEMORY_FULL = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '60'],
  cause: 'no more accepted webhooks can be remembered',
})
const SHARE_FULL = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '60'],
  cause: 'no more accepted webhooks of this key can be remembered: it has its share',
})
const STORE_AWAY = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'the shared store is away',
})
const UNWRITABLE = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'accepted webhooks cannot be written',
})

/**
 * Verifies a signed webhook (Standard Webhooks 1.0): first its headers, then its body, then that it was not accepted before.
 * The response does not tell which check failed. Writes `principal` and `bufferedBody`.
 */
export function proveWebhook(
  gateway: Gateway,
  exchange: Exchange,
  keyId: string,
): Refusal | undefined | Promise<Refusal | undefined> {
  const blocked = refuseGuessing(gateway, exchange)
  if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
  const key = gateway.clients.table.byKeyId.get(keyId)
  // The value is not logged: other APIs use X-API-Key for the secret itself.
  if (key === undefined) {
    countGuess(gateway, exchange)
    return decided(gateway, 'unknown_key', refuseUnproved('X-API-Key names no key of clients.json'))
  }
  const { webhookId: id, webhookTimestamp: timestamp, webhookSignature: signature } = exchange.headers
  const { message, fault } = readWebhookHeaders({ id, timestamp, signature }, gateway.clock())
  if (fault !== undefined) return decided(gateway, fault.reason, refuseUnproved(fault.cause))
  const source = exchange.req.body
  if (source === null) return accept(gateway, exchange, { key, message, body: NO_BODY })
  const body = readWholeBody(gateway, exchange, { owner: key.keyId, source })
  if (!(body instanceof Promise)) return decided(gateway, body.code, body)
  return body.then((buffered) => {
    if (!Buffer.isBuffer(buffered)) return decided(gateway, buffered.code, buffered)
    exchange.bufferedBody = buffered
    return accept(gateway, exchange, { key, message, body: buffered })
  })
}

interface SignedWebhook {
  readonly key: WebhookKey
  readonly message: WebhookMessage
  readonly body: Buffer
}

function accept(
  gateway: Gateway,
  exchange: Exchange,
  { key, message, body }: SignedWebhook,
): Refusal | undefined | Promise<Refusal | undefined> {
  // The client has disconnected. Accepted now, its next attempt would be refused as a replay.
  if (exchange.closed) return undefined
  const fault = verifyWebhook(message, { body, secrets: key.secrets })
  if (fault !== undefined) {
    countGuess(gateway, exchange)
    return decided(gateway, fault.reason, refuseUnproved(fault.cause))
  }
  // A replay is signed too, so its sender is known.
  exchange.principal = key.principal
  const seen = gateway.acceptedWebhooks.take(replayKey(key.keyId, message), key.keyId)
  const accepted: Accepted = { keyId: key.keyId, id: message.id }
  return seen instanceof Promise
    ? seen.then((known) => settle(gateway, known, accepted))
    : settle(gateway, seen, accepted)
}

type Accepted = { readonly keyId: string; readonly id: string }

function settle(
  gateway: Gateway,
  seen: ReplayFault | undefined,
  { keyId, id }: Accepted,
): Refusal | undefined {
  if (seen === 'replayed') {
    const cause = `webhook-id ${quote(id)} of key ${quote(keyId)} was accepted before`
    return decided(gateway, 'replayed', refusal('webhook_replayed', { cause }))
  }
  if (seen === 'away') return decided(gateway, 'unavailable', STORE_AWAY)
  if (seen === 'full') return decided(gateway, 'full', MEMORY_FULL)
  if (seen === 'crowded') return decided(gateway, 'full', SHARE_FULL)
  if (seen === 'unwritable') return decided(gateway, 'unwritable', UNWRITABLE)
  return decided(gateway, 'accepted', undefined)
}

function refuseUnproved(cause: string): Refusal {
  return refusal('invalid_signature', { detail: `${WEBHOOK_REFUSED}.`, headers: CHALLENGE, cause })
}

function decided<R extends Refusal | undefined>(gateway: Gateway, outcome: string, refused: R): R {
  gateway.metrics.gateway_auth_decisions_total.count('hmac', outcome)
  return refused
}
