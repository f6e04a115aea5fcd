const VISIBLE_ASCII = /^[\x21-\x7e]{1,256}$/

/**
 * Whether a value can be the id of a subject, session or client: 1 to 256 visible ASCII characters, which are safe in
 * header fields and in lines of files.
 */
export function isVisibleId(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value)
}

/** The same for a session id, which has no comma because `X-Revoke-Session` is a comma-separated list. */
export function isSessionId(value: unknown): value is string {
  return isVisibleId(value) && !value.includes(',')
}

/** The greatest length of `<issuer>#<id>`. */
const MAX_QUALIFIED_CHARS = 256 + 1 + 256
const QUALIFIED = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUALIFIED_CHARS}}$`)

/** Whether a value is an id, alone or as `<issuer>#<id>`. */
export function isQualifiedId(value: unknown): value is string {
  return typeof value === 'string' && QUALIFIED.test(value)
}
