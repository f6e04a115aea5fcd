import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { quote } from './tokens/quote.ts'

/** The headers `webhook-id`, `webhook-timestamp` and `webhook-signature`; undefined when a request has none. */
interface WebhookHeaders {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
}

/** The headers of one webhook: well-formed and recent, but not verified yet. Immutable. */
export interface WebhookMessage {
  readonly id: string
  /** Epoch seconds, as text, exactly as signed. */
  readonly timestamp: string
  /** The `v1` signatures, 32 bytes each; at least one. */
  readonly signatures: readonly Buffer[]
}

/**
 * `missing`: a header is missing. `malformed`: a header breaks the format. `stale`: the timestamp differs from our clock
 * by more than the tolerance. `unsupported`: there is no `v1` signature. `mismatch`: no signature is right.
 */
type WebhookFaultReason = 'missing' | 'malformed' | 'stale' | 'unsupported' | 'mismatch'

/** Why a webhook was not accepted. Immutable. */
export interface WebhookFault {
  readonly reason: WebhookFaultReason
  /** Public sentence, the same for every reason, so that a forger does not learn which check failed. */
  readonly description: string
  /** Private, for the log. */
  readonly cause: string
}

type WebhookReading =
  | { readonly message: WebhookMessage; readonly fault?: never }
  | { readonly fault: WebhookFault; readonly message?: never }

/** How far the signed time may differ from our clock, in either direction. */
const TOLERANCE_SECONDS = 300
/**
 * From the first to the last moment at which a webhook can be accepted, plus one second, because timestamps have no
 * fractions.
 */
export const WEBHOOK_LIFETIME_MS = (2 * TOLERANCE_SECONDS + 1) * 1000
/** The public sentence of every fault. */
export const WEBHOOK_REFUSED = 'The signature of the webhook is missing or not valid'

// No full stop: it separates the parts of the signed text `id.timestamp.body`.
const ID = /^[\x21-\x2d\x2f-\x7e]{1,128}$/
const TIMESTAMP = /^(?:0|[1-9][0-9]{0,11})$/
const SIGNATURE_BYTES = 32
/** Key rotation needs two or three. */
const MAX_SIGNATURES = 32

/**
 * Parses the headers of a webhook (Standard Webhooks 1.0) before its body arrives: id, time of the attempt and a
 * space-separated list of signatures, of which only version `v1` is used. Never throws.
 *
 * @param nowMs epoch milliseconds
 */
export function readWebhookHeaders(headers: WebhookHeaders, nowMs: number): WebhookReading {
  const { id, timestamp, signature } = headers
  if (id === undefined) return fault('missing', 'no webhook-id')
  if (timestamp === undefined) return fault('missing', 'no webhook-timestamp')
  if (signature === undefined) return fault('missing', 'no webhook-signature')
  if (!ID.test(id)) return fault('malformed', `webhook-id ${quote(id)}`)
  if (!TIMESTAMP.test(timestamp)) return fault('malformed', `webhook-timestamp ${quote(timestamp)}`)
  const aheadSeconds = Number(timestamp) - Math.floor(nowMs / 1000)
  if (Math.abs(aheadSeconds) > TOLERANCE_SECONDS) {
    return fault(
      'stale',
      `webhook-timestamp is ${Math.abs(aheadSeconds)} s ${aheadSeconds < 0 ? 'behind' : 'ahead of'} our clock; ${TOLERANCE_SECONDS} s are allowed`,
    )
  }
  const entries = signature.split(' ', MAX_SIGNATURES + 1)
  if (entries.length > MAX_SIGNATURES)
    return fault('malformed', `more than ${MAX_SIGNATURES} webhook-signatures`)
  const signatures = entries.map(readSignature).filter((one) => one !== undefined)
  return signatures.length === 0
    ? fault('unsupported', 'no well-formed v1 signature in webhook-signature')
    : { message: { id, timestamp, signatures } }
}

/**
 * Verifies a webhook: HMAC-SHA256 over `id.timestamp.body` with each secret against each signature, in constant time.
 *
 * @param body the bytes received, which must also be the bytes forwarded
 * @param secrets those of the key that the caller named; several during a rotation
 * @returns undefined when a signature is right
 */
export function verifyWebhook(
  message: WebhookMessage,
  { body, secrets }: { readonly body: Buffer; readonly secrets: readonly KeyObject[] },
): WebhookFault | undefined {
  let genuine = false
  for (const secret of secrets) {
    const expected = createHmac('sha256', secret)
      .update(`${message.id}.${message.timestamp}.`)
      .update(body)
      .digest()
    for (const signature of message.signatures) {
      if (timingSafeEqual(signature, expected)) genuine = true
    }
  }
  return genuine ? undefined : fault('mismatch', 'no signature fits a secret of the key').fault
}

/**
 * Two webhooks with the same key id, id and attempt time are replays. A sender's retry has a new time (Standard Webhooks,
 * "Webhook metadata"), so it is not one. The signatures do not matter, because anyone can add to their list.
 */
export function replayKey(keyId: string, { id, timestamp }: WebhookMessage): string {
  return `${keyId}\0${id}\0${timestamp}`
}

/** Undefined for another version, or unless it is canonical base64 of 32 bytes. */
function readSignature(entry: string): Buffer | undefined {
  if (!entry.startsWith('v1,')) return undefined
  const text = entry.slice('v1,'.length)
  const bytes = Buffer.from(text, 'base64')
  return bytes.length === SIGNATURE_BYTES && bytes.toString('base64') === text ? bytes : undefined
}

function fault(
  reason: WebhookFaultReason,
  cause: string,
): { readonly fault: WebhookFault; readonly message?: never } {
  return { fault: { reason, description: WEBHOOK_REFUSED, cause } }
}
