import { createHmac, hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import { TOLERANCE_SECONDS, type WebhookScheme } from '../config/clients/webhook-schemes.ts'
import { quote } from './tokens/quote.ts'
import type { OrFault } from './tokens/verification.ts'

export interface WebhookHeaders {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
}

/** Well-formed and recent, but not verified yet. */
export interface WebhookMessage {
  /** Empty where the sender gives none. */
  readonly id: string
  /** Epoch seconds exactly as signed. Empty where the scheme has no time. */
  readonly timestamp: string
  readonly signatures: readonly Buffer[]
}

export interface WebhookFault {
  readonly reason: 'missing' | 'malformed' | 'stale' | 'unsupported' | 'mismatch'
  /** One text for every reason. */
  readonly description: string
  /** For the log. */
  readonly cause: string
}

/** How long a timestamp stays within the tolerance, plus one second, because the fraction of our clock is cut off. */
export const WEBHOOK_LIFETIME_MS = (2 * TOLERANCE_SECONDS + 1) * 1000
export const WEBHOOK_REFUSED = 'The signature of the webhook is missing or not valid'

const ID = /^[\x21-\x7e]{1,128}$/
const TIMESTAMP = /^(?:0|[1-9][0-9]{0,11})$/
/** A rotation of keys needs two or three. */
const MAX_ENTRIES = 32

/** Reads the headers of a webhook before its body arrives. Never throws. */
export function readWebhookHeaders(
  { id: named, timestamp: sent, signature }: WebhookHeaders,
  scheme: WebhookScheme,
  nowMs: number,
): OrFault<{ readonly message: WebhookMessage }, WebhookFault> {
  const { signatureHeader, idBorders, separator, timestampPrefix, toleranceSeconds } = scheme
  const id = named ?? ''
  if (named === undefined && idBorders !== undefined) return fault('missing', `no ${scheme.idHeader}`)
  if (sent === undefined && scheme.timestampHeader !== undefined)
    return fault('missing', `no ${scheme.timestampHeader}`)
  if (signature === undefined) return fault('missing', `no ${signatureHeader}`)
  // An id must not hold a text that separates the signed parts, because a part of the id could then pass for the body.
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

interface SignedContent {
  readonly scheme: WebhookScheme
  readonly body: Buffer
  /** Several during a rotation. */
  readonly secrets: readonly KeyObject[]
  /** URLs that the sender may have signed; one empty text if the scheme signs none. */
  readonly urls: readonly string[]
}

/** Compares in constant time. @returns undefined when a signature is right */
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

/** Key of one attempt: a retry has a new time (Standard Webhooks). Signatures are left out: anyone can add some. */
export function replayKey(keyName: string, { id, timestamp }: WebhookMessage): string {
  return `${keyName}\0${id}\0${timestamp}`
}

/** Key of what is signed. An id that is not signed is left out, because anyone can change it. */
export function contentKey(
  keyName: string,
  message: WebhookMessage,
  { scheme, body, urls: [url = ''] }: Omit<SignedContent, 'secrets'>,
): string {
  const [before, after] = textsAround(message, scheme, url)
  return `${keyName}\0content ${hash('sha256', Buffer.concat([Buffer.from(before), body, Buffer.from(after)]))}`
}

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

/** Undefined: the entry has another version, or is no canonical encoding of a digest. */
function readSignature(entry: string, { prefix, encoding, digestBytes }: WebhookScheme): Buffer | undefined {
  if (!entry.startsWith(prefix)) return undefined
  const text = encoding === 'hex' ? entry.slice(prefix.length).toLowerCase() : entry.slice(prefix.length)
  const bytes = Buffer.from(text, encoding)
  return bytes.length === digestBytes && bytes.toString(encoding) === text ? bytes : undefined
}

function fault(reason: WebhookFault['reason'], cause: string): { readonly fault: WebhookFault } {
  return { fault: { reason, description: WEBHOOK_REFUSED, cause } }
}
