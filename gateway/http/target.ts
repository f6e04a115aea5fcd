/** A request target that can be matched and forwarded: what is matched is what goes upstream. */
export interface Target {
  /** Normalised path, beginning with `/`. */
  readonly path: string
  /** With its question mark, or empty. As received: it is not ours to read. */
  readonly query: string
  /** Authority of an absolute-form target, which takes the place of Host (RFC 9112 section 3.2.2). */
  readonly authority: string | undefined
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i
/** Visible ASCII but for backslash, fragment and parameter marks. */
const PLAIN_PATH = /^[!"$-:<-[\]-~]*$/
const NEEDS_WORK = /%|\/\/|\/\./
const FORBIDDEN_OCTET = /%(?:2f|5c|3b|[01][0-9a-f]|7f)/i
const MALFORMED_OCTET = /%(?![0-9A-Fa-f]{2})/
const OCTET = /%[0-9A-Fa-f]{2}/g
const HIGH_OCTET = /%[89A-Fa-f]/
const UNRESERVED = /[A-Za-z0-9._~-]/

/**
 * Reads a request target in origin-form or absolute-form and normalises its path (RFC 3986 section 6.2.2):
 * unreserved octets decoded, the others in upper case, dot segments and repeated slashes removed.
 *
 * @returns the sentence that says what is wrong when the target could mean one thing to us and another upstream:
 * encoded slashes, backslashes, NUL and other controls, non-ASCII, `;` parameters, octets that are not UTF-8.
 */
export function readTarget(raw: string): Target | string {
  let authority: string | undefined
  let rest = raw
  if (!raw.startsWith('/')) {
    const absolute = ABSOLUTE_FORM.exec(raw)
    if (absolute === null) return 'The request target must be a path or an absolute http URI.'
    authority = absolute[1] ?? ''
    rest = raw.slice(absolute[0].length)
    if (!rest.startsWith('/')) rest = `/${rest}`
  }
  if (rest.includes('#')) return 'The request target must not have a fragment.'
  const question = rest.indexOf('?')
  const path = question < 0 ? rest : rest.slice(0, question)
  const query = question < 0 ? '' : rest.slice(question)
  if (!PLAIN_PATH.test(path)) return 'The path has a backslash, a semicolon or a character outside ASCII.'
  if (!NEEDS_WORK.test(path)) return { path, query, authority }
  const normalised = normalise(path)
  return normalised === undefined
    ? 'The path has a percent-encoded octet that is malformed or not acceptable.'
    : { path: normalised, query, authority }
}

function normalise(path: string): string | undefined {
  if (MALFORMED_OCTET.test(path) || FORBIDDEN_OCTET.test(path)) return undefined
  if (HIGH_OCTET.test(path) && !isUtf8(path)) return undefined
  const decoded = path.replace(OCTET, decodeUnreserved)
  return removeDotSegments(decoded.replace(/\/{2,}/g, '/'))
}

function decodeUnreserved(octet: string): string {
  const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
  return UNRESERVED.test(character) ? character : octet.toUpperCase()
}

/** Overlong and broken sequences are how a slash is hidden from one reader and shown to the next. */
function isUtf8(path: string): boolean {
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}

/** RFC 3986 section 5.2.4. */
function removeDotSegments(path: string): string {
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
