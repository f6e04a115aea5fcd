const VISIBLE_ASCII = /^[\x21-\x7e]{1,256}$/
/** Without half a surrogate pair, which UTF-8 cannot encode. */
const ANY_TEXT = /^\P{Surrogate}{1,256}$/u

export const MAX_ID_CHARS = 256

/** Tells whether a value can be the id of a user or client: any text of 1 to 256 characters. `visibleId` makes it safe. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && ANY_TEXT.test(value)
}

/**
 * Percent-encodes an id (RFC 3986 section 2.1, of its UTF-8), so that it is safe in header fields and in lines of files. Visible
 * ASCII characters other than `%` stay. No two ids become the same.
 */
export function visibleId(id: string): string {
  return id.replace(/[^\x21-\x24\x26-\x7e]+/g, encodeURIComponent)
}

/**
 * Tells whether a value can be the id of a session: 1 to 256 visible ASCII characters without a comma, because
 * `X-Revoke-Session` is a comma-separated list.
 */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value) && !value.includes(',')
}

/** The greatest length of `<issuer>#<id>`. */
const MAX_QUALIFIED_CHARS = 256 + 1 + 256
const QUALIFIED = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUALIFIED_CHARS}}$`)

/** Whether a value is an id, alone or as `<issuer>#<id>`. */
export function isQualifiedId(value: unknown): value is string {
  return typeof value === 'string' && QUALIFIED.test(value)
}
