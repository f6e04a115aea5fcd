export const MAX_ID_CHARS = 256
/** UTF-8 cannot encode half a surrogate pair. */
const ANY_TEXT = new RegExp(`^\\P{Surrogate}{1,${MAX_ID_CHARS}}$`, 'u')
const SESSION = new RegExp(`^[\\x21-\\x2b\\x2d-\\x7e]{1,${MAX_ID_CHARS}}$`)
const QUALIFIED = new RegExp(`^[\\x21-\\x7e]{1,${2 * MAX_ID_CHARS + 1}}$`)

/** Accepts ids of users and clients. `visibleId` makes them safe. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && ANY_TEXT.test(value)
}

/** Percent-encodes an id (RFC 3986 section 2.1), to be safe in headers and lines. No two ids become the same. */
export function visibleId(id: string): string {
  return id.replace(/[^\x21-\x24\x26-\x7e]+/g, encodeURIComponent)
}

/** Accepts ids of sessions. They have no comma, because `X-Revoke-Session` is a list. */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && SESSION.test(value)
}

/** Accepts an id, alone or as `<issuer>#<id>`. */
export function isQualifiedId(value: unknown): value is string {
  return typeof value === 'string' && QUALIFIED.test(value)
}
