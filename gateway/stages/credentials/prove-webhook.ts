import type { Delivery } from '../../auth/deliveries.ts'
import type { ReplayFault } from '../../auth/replay.ts'
import { quote } from '../../auth/tokens/quote.ts'
import {
  contentKey,
  readWebhookHeaders,
  replayKey,
  verifyWebhook,
  WEBHOOK_REFUSED,
  type WebhookHeaders,
  type WebhookMessage,
} from '../../auth/webhook-signature.ts'
import type { WebhookKey } from '../../config/clients/clients-file.ts'
import type { WebhookScheme } from '../../config/clients/webhook-schemes.ts'
import { valueIn } from '../../edge/syntax/field.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import { andThen, type Outcome, type Refusal, refusal } from '../../refusals.ts'
import { NO_BODY, readWholeBody } from '../body/whole-body.ts'
import { countCredential, countGuess, refuseGuessing } from './throttle-guesses.ts'

const CHALLENGE = ['WWW-Authenticate', 'Webhook realm="api"']
const API_KEY = 'x-api-key'
/** The outcome in metrics, the seconds until another attempt, the cause. */
const UNAVAILABLE: Readonly<Record<Exclude<ReplayFault, 'replayed'>, readonly [string, number, string]>> = {
  full: ['full', 60, 'no more accepted webhooks can be remembered'],
  crowded: ['full', 60, 'no more accepted webhooks of this key can be remembered: it has used up its share'],
  away: ['unavailable', 5, 'the shared store is away'],
  unwritable: ['unwritable', 5, 'accepted webhooks cannot be written'],
}

/** True for a request that names a key or, where the row names a client, has the client's signature header. */
export function presentsWebhook(gateway: Gateway, { route, req }: Exchange): boolean {
  const client = route?.webhookClient
  if (client === undefined) return valueIn(req.fields, API_KEY) !== undefined
  const scheme = gateway.clients.table.byWebhookClient.get(client)?.scheme
  // Without a scheme the client has no key. Even where `none` is accepted, the request must not pass unverified.
  return scheme === undefined || req.fields.some(({ lower }) => lower === scheme.signatureHeader)
}

/** The response does not tell which check failed. */
export function proveWebhook(gateway: Gateway, exchange: Exchange): Outcome {
  const client = exchange.route?.webhookClient
  const { byKeyId, byWebhookClient } = gateway.clients.table
  const keyId = valueIn(exchange.req.fields, API_KEY) ?? ''
  const key = client === undefined ? byKeyId.get(keyId) : byWebhookClient.get(client)
  const blocked = refuseGuessing(gateway, exchange, key?.principal.client)
  if (blocked !== undefined) return decided(gateway, 'throttled', blocked)
  // The value is not logged, because other APIs use X-API-Key for the secret itself.
  if (key === undefined) {
    countGuess(gateway, exchange)
    const name = client === undefined ? 'X-API-Key names' : 'webhookClient of the row names'
    return decided(gateway, 'unknown_key', refuseUnproved(`${name} no key of clients.json`))
  }
  const headers = headersOf(exchange, key.scheme)
  if (headers === undefined)
    return decided(gateway, 'malformed', refuseUnproved('a header of the webhook is repeated', key))
  const { message, fault } = readWebhookHeaders(headers, key.scheme, gateway.clock())
  if (fault !== undefined) return decided(gateway, fault.reason, refuseUnproved(fault.cause, key))
  const source = exchange.req.body
  if (source === null) return accept(gateway, exchange, { key, message, body: NO_BODY })
  return andThen(readWholeBody(gateway, exchange, { owner: key.name, source }), (body) => {
    if (!Buffer.isBuffer(body)) return decided(gateway, body.code, body)
    exchange.bufferedBody = body
    // Checked again after a slow body: the memory of accepted webhooks may have forgotten this one by now.
    const late = readWebhookHeaders(headers, key.scheme, gateway.clock()).fault
    if (late !== undefined) return decided(gateway, late.reason, refuseUnproved(late.cause, key))
    return accept(gateway, exchange, { key, message, body })
  })
}

/** Undefined where a header is repeated, because readers would differ about which value counts. */
function headersOf(
  { req }: Exchange,
  { idHeader, timestampHeader, signatureHeader }: WebhookScheme,
): WebhookHeaders | undefined {
  const named = [idHeader, timestampHeader, signatureHeader].map((header) =>
    req.fields.filter(({ lower }) => lower === header),
  )
  if (named.some((fields) => fields.length > 1)) return undefined
  const [id, timestamp, signature] = named.map(([field]) => field?.value)
  return { id, timestamp, signature }
}

/** Characters of a signed URL. With other characters, a JSON body could begin in the URL under the same signature. */
const URL_CHARACTERS = /^[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*$/

/** URLs that the sender may have signed. Host is not trusted. */
function urlsOf({ settings }: Gateway, { req }: Exchange, { signed }: WebhookScheme): readonly string[] {
  if (!signed.includes('{url}')) return ['']
  if (!URL_CHARACTERS.test(req.target)) return []
  return settings.dpop.publicUrls.map((base) => base.replace(/\/$/, '') + req.target)
}

function accept(
  gateway: Gateway,
  exchange: Exchange,
  {
    key,
    message,
    body,
  }: { readonly key: WebhookKey; readonly message: WebhookMessage; readonly body: Buffer },
): Outcome {
  // If the request of a client that has gone were accepted, a retry would be refused as a replay.
  if (exchange.closed) return undefined
  const { scheme, secrets, name } = key
  const content = { scheme, secrets, body, urls: urlsOf(gateway, exchange, scheme) }
  const fault = verifyWebhook(message, content)
  if (fault !== undefined) {
    countGuess(gateway, exchange)
    return decided(gateway, fault.reason, refuseUnproved(fault.cause, key))
  }
  // A replay is signed too, so its sender is known.
  exchange.principal = key.principal
  const answer = (seen: ReplayFault | undefined) => settle(gateway, seen, key, message.id)
  if (scheme.replays !== 'delivery') {
    const id = scheme.replays === 'attempt' ? replayKey(name, message) : contentKey(name, message, content)
    return andThen(gateway.acceptedWebhooks.take(id, name), answer)
  }
  const keys = [contentKey(name, message, content)]
  if (message.id !== '') keys.push(`${name}\0id ${message.id}`)
  const delivery: Delivery = { keys, sender: name }
  return andThen(gateway.deliveries.begin(delivery), (seen) => {
    if (seen === undefined && exchange.closed) gateway.deliveries.end(delivery, false)
    // `close` reports the end of the delivery.
    else if (seen === undefined) exchange.delivery = delivery
    return answer(seen)
  })
}

function settle(
  gateway: Gateway,
  seen: ReplayFault | undefined,
  { name, principal }: WebhookKey,
  id: string,
): Refusal | undefined {
  if (seen === 'replayed') {
    const cause = `webhook ${quote(id)} of key ${quote(name)} was accepted before`
    return decided(gateway, 'replayed', refusal('webhook_replayed', { cause, client: principal.client }))
  }
  if (seen === undefined) return decided(gateway, 'accepted', undefined)
  const [outcome, seconds, cause] = UNAVAILABLE[seen]
  const headers = ['Retry-After', String(seconds)]
  return decided(gateway, outcome, refusal('webhooks_unavailable', { headers, cause }))
}

function refuseUnproved(cause: string, key?: WebhookKey): Refusal {
  const forLog = { cause, client: key?.principal.client }
  return refusal('invalid_signature', { detail: `${WEBHOOK_REFUSED}.`, headers: CHALLENGE, ...forLog })
}

function decided<R extends Refusal | undefined>(gateway: Gateway, outcome: string, refused: R): R {
  return countCredential(gateway, 'hmac', outcome, refused)
}
