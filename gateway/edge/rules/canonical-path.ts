import type { PathLeniency } from './policy/path-readings.ts'

/** What stands for itself in a path: RFC 3986's `pchar` (section 3.3) and `/`, but for `;`. */
const PLAIN = /^[A-Za-z0-9._~!$&'()*+,=:@/-]*$/
const PLAIN_CHARACTER = /[A-Za-z0-9._~!$&'()*+,=:@-]/
const TO_NORMALISE = /\/[/.]/
const FORBIDDEN_OCTET = /%(?:2f|5c|3b|[01][0-9a-f]|7f)/i
const FORBIDDEN_BUT_SLASH = /%(?:5c|3b|[01][0-9a-f]|7f)/i
const MALFORMED_OCTET = /%(?![0-9A-Fa-f]{2})/
const HIGH_OCTET = /%[89A-Fa-f]/
/** An octet, or visible ASCII that needs its escape in a path but is often sent without. */
const TO_REWRITE = /%[0-9A-Fa-f]{2}|["<>[\]^`{|}]/g

/**
 * The one spelling of a path that routes and limits are compared with, and that goes upstream (RFC 3986 section 6.2.2):
 * what may stand for itself is decoded, all else percent-encoded in capitals, dot segments and repeated slashes are
 * removed. A canonical path is its own canonical form.
 *
 * @param path visible ASCII, without backslash, and without `;` unless parameters are let through; they stay as they are
 * @param leniency lets encoded slashes through: they stay encoded, and divide nothing
 * @returns undefined when an octet is malformed, is not UTF-8, or would change meaning when decoded again: slash,
 * backslash, semicolon, control characters
 */
export function canonicalPath(path: string, leniency?: PathLeniency): string | undefined {
  if (PLAIN.test(path)) return TO_NORMALISE.test(path) ? removeDotSegments(path) : path
  const forbidden = leniency?.encodedSlashes === true ? FORBIDDEN_BUT_SLASH : FORBIDDEN_OCTET
  if (MALFORMED_OCTET.test(path) || forbidden.test(path)) return undefined
  if (HIGH_OCTET.test(path) && !isUtf8(path)) return undefined
  return removeDotSegments(path.replace(TO_REWRITE, rewritten))
}

/** Whether a text is a canonical path without an octet: as most targets are, which nothing else needs to be asked of. */
export function isPlainPath(text: string): boolean {
  return text.startsWith('/') && PLAIN.test(text) && !TO_NORMALISE.test(text)
}

/** Whether a character is written as itself in a canonical path, never as an octet. */
export function standsForItself(character: string): boolean {
  return PLAIN_CHARACTER.test(character)
}

function rewritten(written: string): string {
  if (written.length === 1) return `%${written.charCodeAt(0).toString(16).toUpperCase()}`
  const character = String.fromCharCode(Number.parseInt(written.slice(1), 16))
  return standsForItself(character) ? character : written.toUpperCase()
}

/** Overlong and broken sequences can hide a slash from one reader and show it to the next. */
function isUtf8(path: string): boolean {
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}

/** RFC 3986 section 5.2.4; also merges repeated slashes. */
function removeDotSegments(path: string): string {
  const kept: string[] = []
  const segments = path.replace(/\/{2,}/g, '/').split('/')
  for (const segment of segments) {
    if (segment === '..') {
      if (kept.length > 1) kept.pop()
    } else if (segment !== '.') kept.push(segment)
  }
  const last = segments.at(-1)
  if (last === '.' || last === '..') kept.push('')
  return kept.length === 1 ? '/' : kept.join('/')
}
