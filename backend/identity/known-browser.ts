import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { emailKey } from './user-credentials.ts'

/**
 * A device cookie (OWASP): a browser in which somebody signed in has its own throttle, so that strangers cannot lock the owner
 * out. `<16 random bytes>.<HMAC-SHA256 over them and the e-mail address>`, both base64url.
 */
export const KNOWN_BROWSER_COOKIE = 'known_browser'

export const KNOWN_BROWSER_SECONDS = 180 * 24 * 60 * 60

/** Makes a cookie value after a sign-in with this address. */
export function markBrowser(secret: Buffer, email: string): string {
  const id = randomBytes(16).toString('base64url')
  return `${id}.${sign(secret, id, email)}`
}

/** Returns the cookie's id; `undefined` when the cookie is not ours or belongs to another address. */
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
