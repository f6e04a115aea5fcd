import { percentDecoded, percentOctet } from '../syntax/characters.ts'

export interface PathLeniency {
  /** True allows `%2F` in a path. It stays encoded and never divides segments here. */
  readonly encodedSlashes: boolean
  /** True allows `;` in a path (RFC 3986 section 3.3). */
  readonly pathParameters: boolean
}

/** `/`, and `pchar` (RFC 3986 section 3.3) without `;`. */
const PLAIN = /^[A-Za-z0-9._~!$&'()*+,=:@/-]*$/
const PLAIN_CHARACTER = /[A-Za-z0-9._~!$&'()*+,=:@-]/
const TO_NORMALISE = /\/[/.]/
const FORBIDDEN_OCTET = /%(?:2f|5c|3b|[01][0-9a-f]|7f)/i
const FORBIDDEN_BUT_SLASH = /%(?:5c|3b|[01][0-9a-f]|7f)/i
const MALFORMED_OCTET = /%(?![0-9A-Fa-f]{2})/
const HIGH_OCTET = /%[89A-Fa-f]/
/** Percent-encoded octets, and visible ASCII that must be percent-encoded in a path but often is not. */
const TO_REWRITE = /%[0-9A-Fa-f]{2}|["<>[\]^`{|}]/g

/**
 * The canonical form of a path (RFC 3986 section 6.2.2), which is matched and sent upstream. Plain characters
 * are decoded, all others percent-encoded in capitals; dot segments and repeated slashes are removed. The
 * function is idempotent.
 * @param path visible ASCII, without backslash, and without `;` unless `leniency` allows it
 * @returns undefined when an octet is malformed, is not UTF-8, or would change meaning when decoded again:
 * slash, backslash, semicolon, control characters
 */
export function canonicalPath(path: string, leniency?: PathLeniency): string | undefined {
  if (PLAIN.test(path)) return TO_NORMALISE.test(path) ? normalised(path) : path
  const forbidden = leniency?.encodedSlashes === true ? FORBIDDEN_BUT_SLASH : FORBIDDEN_OCTET
  if (MALFORMED_OCTET.test(path) || forbidden.test(path)) return undefined
  // Overlong and broken sequences may hide a slash from one reader and show it to another.
  if (HIGH_OCTET.test(path) && percentDecoded(path) === undefined) return undefined
  return normalised(path.replace(TO_REWRITE, rewritten))
}

/** True for a canonical path without percent-encoded octets. */
export function isPlainPath(text: string): boolean {
  return text.startsWith('/') && PLAIN.test(text) && !TO_NORMALISE.test(text)
}

/** True when a canonical path never has the character percent-encoded. */
export function standsForItself(character: string): boolean {
  return PLAIN_CHARACTER.test(character)
}

function rewritten(written: string): string {
  if (written.length === 1) return percentOctet(written.charCodeAt(0))
  const character = String.fromCharCode(Number.parseInt(written.slice(1), 16))
  return standsForItself(character) ? character : written.toUpperCase()
}

function normalised(path: string): string {
  return withoutDotSegments(path.replace(/\/{2,}/g, '/'))
}

/** Resolves `.` and `..` (RFC 3986 section 5.2.4). @param path begins with a slash */
export function withoutDotSegments(path: string): string {
  const kept: string[] = []
  const segments = path.split('/')
  for (const segment of segments) {
    if (segment === '..') {
      if (kept.length > 1) kept.pop()
    } else if (segment !== '.') kept.push(segment)
  }
  const last = segments.at(-1)
  if (last === '.' || last === '..') kept.push('')
  return kept.length === 1 ? '/' : kept.join('/')
}
