import { createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import { TOLERANCE_SECONDS, type WebhookScheme } from '../config/clients/webhook-schemes.ts'
import { quote } from './tokens/quote.ts'

/** The values of the headers that a scheme names; undefined when a request has none. */
export interface WebhookHeaders {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
}

/** The headers of one webhook: well-formed and recent, but not verified yet. Immutable. */
export interface WebhookMessage {
  /** Empty where the sender gives none. */
  readonly id: string
  /** Epoch seconds, as text, exactly as signed. Empty where the scheme has no time. */
  readonly timestamp: string
  /** Signatures of the scheme's version and length; at least one. */
  readonly signatures: readonly Buffer[]
}

/**
 * `missing`: a header is missing. `malformed`: a header breaks the format. `stale`: the timestamp differs from our clock
 * by more than the tolerance. `unsupported`: there is no signature of the scheme's version. `mismatch`: no signature is right.
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

/**
 * From the first to the last moment at which a webhook can be accepted, plus one second, because timestamps have no
 * fractions.
 */
export const WEBHOOK_LIFETIME_MS = (2 * TOLERANCE_SECONDS + 1) * 1000
/** The public sentence of every fault. */
export const WEBHOOK_REFUSED = 'The signature of the webhook is missing or not valid'

const ID = /^[\x21-\x7e]{1,128}$/
const TIMESTAMP = /^(?:0|[1-9][0-9]{0,11})$/
/** Key rotation needs two or three. */
const MAX_ENTRIES = 32

/**
 * Parses the headers of a webhook before its body arrives: the id, the time of the attempt, and the signatures, of which only those of
 * the scheme's version are used. Never throws.
 *
 * @param nowMs epoch milliseconds
 */
export function readWebhookHeaders(
  { id: named, timestamp: sent, signature }: WebhookHeaders,
  scheme: WebhookScheme,
  nowMs: number,
): WebhookReading {
  const { signatureHeader, idBorders, separator, timestampPrefix, toleranceSeconds } = scheme
  const id = named ?? ''
  if (named === undefined && idBorders !== undefined) return fault('missing', `no ${scheme.idHeader}`)
  if (sent === undefined && scheme.timestampHeader !== undefined)
    return fault('missing', `no ${scheme.timestampHeader}`)
  if (signature === undefined) return fault('missing', `no ${signatureHeader}`)
  // What follows the id in the signed text must not be in it: the same text could be read as another id and body.
  if (named !== undefined && (!ID.test(id) || idBorders?.some((border) => id.includes(border)) === true))
    return fault('malformed', `${scheme.idHeader} ${quote(id)}`)
  const entries = separator === undefined ? [signature] : signature.split(separator, MAX_ENTRIES + 1)
  if (entries.length > MAX_ENTRIES)
    return fault('malformed', `more than ${MAX_ENTRIES} entries in ${signatureHeader}`)
  const times =
    timestampPrefix === undefined ? [] : entries.filter((entry) => entry.startsWith(timestampPrefix))
  if (times.length > 1) return fault('malformed', `more than one time in ${signatureHeader}`)
  const timestamp = sent ?? times[0]?.slice(timestampPrefix?.length) ?? ''
  if (toleranceSeconds !== undefined) {
    if (!TIMESTAMP.test(timestamp))
      return fault(
        'malformed',
        `${scheme.timestampHeader ?? `time in ${signatureHeader}`} ${quote(timestamp)}`,
      )
    const aheadSeconds = Number(timestamp) - Math.floor(nowMs / 1000)
    if (Math.abs(aheadSeconds) > toleranceSeconds) {
      return fault(
        'stale',
        `${scheme.timestampHeader ?? signatureHeader} is ${Math.abs(aheadSeconds)} s ${aheadSeconds < 0 ? 'behind' : 'ahead of'} our clock; ${toleranceSeconds} s are allowed`,
      )
    }
  }
  const signatures = entries.map((entry) => readSignature(entry, scheme)).filter((one) => one !== undefined)
  return signatures.length === 0
    ? fault('unsupported', `no well-formed ${quote(scheme.prefix)} signature in ${signatureHeader}`)
    : { message: { id, timestamp, signatures } }
}

/** What a webhook must be verified with. */
interface SignedContent {
  readonly scheme: WebhookScheme
  /** The bytes received, which must also be the bytes forwarded. */
  readonly body: Buffer
  /** Secrets of the key that the caller or the row named; several during a rotation. */
  readonly secrets: readonly KeyObject[]
  /** The URL as the sender may know it, for schemes that sign it; at least one. */
  readonly urls: readonly string[]
}

/**
 * Verifies a webhook: the HMAC of what is signed, with each secret, against each signature, in constant time.
 *
 * @returns undefined when a signature is right
 */
export function verifyWebhook(
  message: WebhookMessage,
  { scheme, body, secrets, urls }: SignedContent,
): WebhookFault | undefined {
  let genuine = false
  for (const url of urls) {
    const [before, after] = textsAround(message, scheme, url)
    for (const secret of secrets) {
      const mac = createHmac(scheme.algorithm, secret).update(before).update(body)
      const expected = (after === '' ? mac : mac.update(after)).digest()
      for (const signature of message.signatures) {
        if (timingSafeEqual(signature, expected)) genuine = true
      }
    }
  }
  return genuine ? undefined : fault('mismatch', 'no signature fits a secret of the key').fault
}

/**
 * Two webhooks with the same key, id and attempt time are replays. A sender's retry has a new time (Standard Webhooks,
 * "Webhook metadata"), so it is not one. The signatures do not matter, because anyone can add to their list.
 */
export function replayKey(keyName: string, { id, timestamp }: WebhookMessage): string {
  return `${keyName}\0${id}\0${timestamp}`
}

/** Two webhooks of one key with the same signed content are replays: an id that is not signed could be another. */
export function contentKey(
  keyName: string,
  message: WebhookMessage,
  { scheme, body, urls: [url = ''] }: Omit<SignedContent, 'secrets'>,
): string {
  const [before, after] = textsAround(message, scheme, url)
  return `${keyName}\0content ${hash('sha256', Buffer.concat([Buffer.from(before), body, Buffer.from(after)]))}`
}

/** The signed texts before the body and after it. */
function textsAround(
  { id, timestamp }: WebhookMessage,
  { signed }: WebhookScheme,
  url: string,
): readonly [before: string, after: string] {
  let before = ''
  let text = ''
  for (const part of signed) {
    if (part === '{body}') {
      before = text
      text = ''
    } else text += part === '{id}' ? id : part === '{timestamp}' ? timestamp : part === '{url}' ? url : part
  }
  return [before, text]
}

/** Undefined for another version, or unless it is the canonical encoding of as many bytes as the algorithm gives. */
function readSignature(entry: string, { prefix, encoding, digestBytes }: WebhookScheme): Buffer | undefined {
  if (!entry.startsWith(prefix)) return undefined
  const text = encoding === 'hex' ? entry.slice(prefix.length).toLowerCase() : entry.slice(prefix.length)
  const bytes = Buffer.from(text, encoding)
  return bytes.length === digestBytes && bytes.toString(encoding) === text ? bytes : undefined
}

function fault(
  reason: WebhookFaultReason,
  cause: string,
): { readonly fault: WebhookFault; readonly message?: never } {
  return { fault: { reason, description: WEBHOOK_REFUSED, cause } }
}
