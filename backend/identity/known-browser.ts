import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { emailKey } from './user-credentials.ts'

/**
 * A device cookie as OWASP describes it: a browser in which somebody signed in has a throttle of its own, so that strangers
 * cannot lock the owner out. `<16 random bytes>.<HMAC-SHA256 over them and the e-mail address>`, both base64url.
 */
export const KNOWN_BROWSER_COOKIE = 'known_browser'

export const KNOWN_BROWSER_SECONDS = 180 * 24 * 60 * 60

/** A new cookie value for the e-mail address that has just signed in. */
export function markBrowser(secret: Buffer, email: string): string {
  const id = randomBytes(16).toString('base64url')
  return `${id}.${sign(secret, id, email)}`
}

/** The id in the cookie; `undefined` when it is not ours, or belongs to another address. */
export function knownBrowser(secret: Buffer, cookie: string | undefined, email: string): string | undefined {
  const [id = '', signature = '', ...rest] = (cookie ?? '').split('.')
  const expected = Buffer.from(sign(secret, id, email))
  const given = Buffer.from(signature)
  const isOurs = rest.length === 0 && given.length === expected.length && timingSafeEqual(given, expected)
  return isOurs ? id : undefined
}

function sign(secret: Buffer, id: string, email: string): string {
  return createHmac('sha256', secret)
    .update(`${id}\n${emailKey(email)}`)
    .digest('base64url')
}
