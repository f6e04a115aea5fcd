const VISIBLE_ASCII = /^[\x21-\x7e]{1,256}$/

/**
 * Whether a value can be the id of a subject, a session or a client here: 1 to 256 visible ASCII characters, so that
 * it can stand in a header field and in a line of a file and cannot break either.
 */
export function isVisibleId(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value)
}

/** The same for a session: a comma would make two of it in the list of those that `X-Revoke-Session` names. */
export function isSessionId(value: unknown): value is string {
  return isVisibleId(value) && !value.includes(',')
}

/** The longest that `<issuer>#<id>` can be. */
const MAX_QUALIFIED_CHARS = 256 + 1 + 256
const QUALIFIED = new RegExp(`^[\\x21-\\x7e]{1,${MAX_QUALIFIED_CHARS}}$`)

/** Whether a value can be what an id is called here: by itself, or behind the name of its issuer. */
export function isQualifiedId(value: unknown): value is string {
  return typeof value === 'string' && QUALIFIED.test(value)
}
