import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { quote } from './tokens/quote.ts'

/** The headers `webhook-id`, `webhook-timestamp` and `webhook-signature`; undefined when a request has none. */
export interface WebhookHeaders {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
}

/** What the headers of one delivery say, well-formed and of our time, but not yet proved genuine. Immutable. */
export interface WebhookMessage {
  readonly id: string
  /** Epoch seconds, as they were written and signed. */
  readonly timestamp: string
  /** Every `v1` signature of the list, 32 bytes each; at least one. */
  readonly signatures: readonly Buffer[]
}

/**
 * `missing`: one of the headers is. `malformed`: one of them breaks the format. `stale`: the timestamp is further from
 * our clock than the tolerance. `unsupported`: no signature of version `v1`. `mismatch`: none of them is right.
 */
export type WebhookFaultReason = 'missing' | 'malformed' | 'stale' | 'unsupported' | 'mismatch'

/** Why a webhook was not accepted. Immutable. */
export interface WebhookFault {
  readonly reason: WebhookFaultReason
  /** Public sentence, the same for every reason: which check failed would help whoever forges. */
  readonly description: string
  /** Private, for the log. */
  readonly cause: string
}

export type WebhookReading =
  | { readonly message: WebhookMessage; readonly fault?: never }
  | { readonly fault: WebhookFault; readonly message?: never }

/** A delivery is accepted this long before and after the time that it was signed for. */
export const WEBHOOK_TOLERANCE_SECONDS = 300
/** The public sentence of every fault. */
export const WEBHOOK_REFUSED = 'The webhook is not signed as it must be'

// A full stop would let the borders of `id.timestamp.body` be drawn elsewhere, under the same signature.
const ID = /^[\x21-\x2d\x2f-\x7e]{1,128}$/
const TIMESTAMP = /^(?:0|[1-9][0-9]{0,11})$/
const SIGNATURE_BYTES = 32
/** Rotation needs two or three. */
const MAX_SIGNATURES = 32

/**
 * Reads the headers of a delivery by Standard Webhooks 1.0, before its body is waited for: id, attempt time and a
 * space-delimited list of signatures, of which those of other versions are passed over. Never throws.
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
  if (Math.abs(aheadSeconds) > WEBHOOK_TOLERANCE_SECONDS) {
    return fault(
      'stale',
      `webhook-timestamp is ${Math.abs(aheadSeconds)} s ${aheadSeconds < 0 ? 'old' : 'ahead'}`,
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
 * Proves a delivery: HMAC-SHA256 over `id.timestamp.body` with each secret against each signature, in constant time.
 *
 * @param body exactly the bytes that were received; what is forwarded must be these
 * @param secrets those of the key that the caller named; several while one takes the place of another
 * @returns undefined when it is genuine
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
 * What makes a delivery a replay of another: the key, the id and the attempt time. A sender that tries again signs a
 * new time (Standard Webhooks, "Webhook metadata"), so its retries are no replays; and the list of signatures does not
 * count, because anyone can add to it.
 */
export function replayKey(keyId: string, { id, timestamp }: WebhookMessage): string {
  return `${keyId}\0${id}\0${timestamp}`
}

/** Undefined: another version, or no base64 of 32 bytes in its one canonical spelling. */
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
