import type { Readable } from 'node:stream'
import { quote } from '../../auth/tokens/quote.ts'
import {
  readWebhookHeaders,
  replayKey,
  verifyWebhook,
  WEBHOOK_REFUSED,
  type WebhookMessage,
} from '../../auth/webhook-signature.ts'
import type { WebhookKey } from '../../config/client-table.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { bufferBody } from '../../http/bodies/buffered-body.ts'
import { networkOf } from '../../http/rules/network.ts'
import { type Refusal, refusal } from '../../refusals.ts'
import { countGuess, refuseGuessing } from './throttle-guesses.ts'

/** Of one body: all of it is in memory before its signature can be looked at. */
const MAX_BODY_BYTES = 1024 * 1024

const CHALLENGE = ['WWW-Authenticate', 'Webhook realm="api"']
const NO_BODY = Buffer.alloc(0)
const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'], cause: 'webhook bodies' })
const MEMORY_FULL = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '60'],
  cause: 'no more accepted webhooks can be remembered',
})
const UNWRITABLE = refusal('webhooks_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'accepted webhooks cannot be written',
})

/**
 * Proves a signed webhook (Standard Webhooks 1.0): what its head says first, then its body, then that it was not
 * accepted before. Which check has failed stays inside. Writes `principal` and `bufferedBody`.
 */
export function proveWebhook(
  gateway: Gateway,
  exchange: Exchange,
  keyId: string,
): Refusal | undefined | Promise<Refusal | undefined> {
  const blocked = refuseGuessing(gateway, exchange)
  if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
  const key = gateway.clients.table.byKeyId.get(keyId)
  // What stands there goes into no log: elsewhere a key of that name is the secret itself.
  if (key === undefined) {
    countGuess(gateway, exchange)
    return decided(gateway, 'unknown_key', refuseUnproved('X-API-Key names no key of clients.json'))
  }
  const { webhookId: id, webhookTimestamp: timestamp, webhookSignature: signature } = exchange.headers
  const { message, fault } = readWebhookHeaders({ id, timestamp, signature }, gateway.clock())
  if (fault !== undefined) return decided(gateway, fault.reason, refuseUnproved(fault.cause))
  const source = exchange.req.body
  if (source === null) return accept(gateway, exchange, { key, message, body: NO_BODY })
  const body = gather(gateway, exchange, { keyId: key.keyId, source })
  if (!(body instanceof Promise)) return decided(gateway, body.code, body)
  return body.then((buffered) => {
    if (!Buffer.isBuffer(buffered)) return decided(gateway, buffered.code, buffered)
    exchange.bufferedBody = buffered
    return accept(gateway, exchange, { key, message, body: buffered })
  })
}

/** Waits for the whole body, as long as there is room; what is too long is refused before any of it is read. */
function gather(
  { load: { bodyRoom } }: Gateway,
  exchange: Exchange,
  { keyId, source }: { readonly keyId: string; readonly source: Readable },
): Refusal | Promise<Buffer | Refusal> {
  const { req, res, headers, route } = exchange
  const maxBytes = Math.min(route?.maxBodyBytes ?? MAX_BODY_BYTES, MAX_BODY_BYTES)
  const { contentLength } = headers
  if (contentLength !== undefined && contentLength > maxBytes) return refusal('body_too_large')
  const waiting = { keyId, network: networkOf(exchange.address), bytes: 0 }
  res.onClose(() => bodyRoom.release(waiting))
  // Its sender waits with the body that has to be seen before anything can be said about it.
  if (headers.expect !== undefined && req.version === '1.1') res.writeInterim(100, '')
  const hasRoom = (bytes: number) => bodyRoom.take(waiting, bytes)
  return bufferBody(source, { maxBytes, contentLength, hasRoom }).then((body) => {
    if (body === 'too_large') return refusal('body_too_large')
    if (body === 'no_room') return OVERLOADED
    return body === 'broken' ? refusal('malformed_request', { cause: 'the body broke off' }) : body
  })
}

interface Delivery {
  readonly key: WebhookKey
  readonly message: WebhookMessage
  readonly body: Buffer
}

function accept(gateway: Gateway, exchange: Exchange, { key, message, body }: Delivery): Refusal | undefined {
  // Its client has gone: taken now, the delivery could not be tried again.
  if (exchange.closed) return undefined
  const fault = verifyWebhook(message, { body, secrets: key.secrets })
  if (fault !== undefined) {
    countGuess(gateway, exchange)
    return decided(gateway, fault.reason, refuseUnproved(fault.cause))
  }
  // Before it is known to be new: of whom a replay is, is proved.
  exchange.principal = key.principal
  const seen = gateway.deliveries.take(replayKey(key.keyId, message))
  if (seen === 'replayed') {
    const cause = `webhook-id ${quote(message.id)} of key ${quote(key.keyId)} was accepted before`
    return decided(gateway, 'replayed', refusal('webhook_replayed', { cause }))
  }
  if (seen === 'full') return decided(gateway, 'full', MEMORY_FULL)
  if (seen === 'unwritable') return decided(gateway, 'unwritable', UNWRITABLE)
  return decided(gateway, 'accepted', undefined)
}

function refuseUnproved(cause: string): Refusal {
  return refusal('invalid_signature', { detail: `${WEBHOOK_REFUSED}.`, headers: CHALLENGE, cause })
}

function decided<R extends Refusal | undefined>(gateway: Gateway, outcome: string, refused: R): R {
  gateway.metrics.authDecision('hmac', outcome)
  return refused
}
