import type { Readable } from 'node:stream'
import { quote } from '../auth/quote.ts'
import {
  readWebhookHeaders,
  replayKey,
  verifyWebhook,
  WEBHOOK_REFUSED,
  type WebhookMessage,
} from '../auth/webhook-signature.ts'
import type { WebhookKey } from '../config/clients.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway, Gathered } from '../gateway.ts'
import { gatherBody } from '../http/gather-body.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { countGuess, refuseGuessing } from './guessing.ts'

/** Of one body: all of it is in memory before its signature can be looked at. */
const MAX_BODY_BYTES = 1024 * 1024
/** Of all bodies at the same time, and of those from one address: a key's name is no secret, so anyone can begin one. */
const MAX_GATHERED_BYTES = 64 * MAX_BODY_BYTES
const MAX_FROM_ADDRESS_BYTES = 8 * MAX_BODY_BYTES

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
 * accepted before. Which check has failed stays inside. Writes `principal` and `gathered`.
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
  const body = gather(gateway, exchange, source)
  if (!(body instanceof Promise)) return decided(gateway, body.code, body)
  return body.then((gathered) => {
    if (!Buffer.isBuffer(gathered)) return decided(gateway, gathered.code, gathered)
    exchange.gathered = gathered
    return accept(gateway, exchange, { key, message, body: gathered })
  })
}

/** Waits for the whole body; what is too much to wait for is refused before any of it is read. */
function gather(gateway: Gateway, exchange: Exchange, source: Readable): Refusal | Promise<Buffer | Refusal> {
  const { req, res, headers, route } = exchange
  const { load } = gateway
  const maxBytes = Math.min(route?.maxBodyBytes ?? MAX_BODY_BYTES, MAX_BODY_BYTES)
  const bytes = headers.contentLength ?? maxBytes
  if (bytes > maxBytes) return refusal('body_too_large')
  if (!reserve(load.gathered, exchange, bytes)) return OVERLOADED
  res.onClose(() => release(load.gathered, exchange, bytes))
  // Its sender waits with the body that has to be seen before anything can be said about it.
  if (headers.expect !== undefined && req.version === '1.1') res.writeInterim(100, '')
  return gatherBody(source, { maxBytes, contentLength: headers.contentLength }).then((body) => {
    if (body === 'too_large') return refusal('body_too_large')
    return body === 'broken' ? refusal('malformed_request', { cause: 'the body broke off' }) : body
  })
}

function reserve(gathered: Gathered, { address }: Exchange, bytes: number): boolean {
  const ofAddress = (gathered.ofAddress.get(address) ?? 0) + bytes
  if (gathered.bytes + bytes > MAX_GATHERED_BYTES || ofAddress > MAX_FROM_ADDRESS_BYTES) return false
  gathered.bytes += bytes
  gathered.ofAddress.set(address, ofAddress)
  return true
}

function release(gathered: Gathered, { address }: Exchange, bytes: number): void {
  const left = (gathered.ofAddress.get(address) ?? 0) - bytes
  gathered.bytes -= bytes
  if (left > 0) gathered.ofAddress.set(address, left)
  else gathered.ofAddress.delete(address)
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
