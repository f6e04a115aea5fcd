import { canonicalPath, isPlainPath, type PathLeniency } from './canonical-path.ts'

export interface Target {
  /** Canonical, beginning with `/`; an asterisk for `OPTIONS *`. */
  readonly path: string
  /** With its question mark, or empty. As received. */
  readonly query: string
  /** Authority of an absolute-form target: it replaces Host (RFC 9112 section 3.2.2). */
  readonly authority: string | undefined
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i
/** Visible ASCII without backslash, `#` and `;`. The query was split off before. */
const ACCEPTED_PATH = /^[!"$-:<-[\]-~]*$/
const ACCEPTED_WITH_PARAMETERS = /^[!"$-[\]-~]*$/
const VISIBLE = /^[!-~]*$/

/**
 * Reads a request target in origin-form or absolute-form, with its path in canonical form.
 * @param leniency what any route allows: the route is not known yet
 * @returns a sentence that says what is wrong, if the upstream could understand the target differently
 */
export function readTarget(raw: string, leniency?: PathLeniency): Target | string {
  if (isPlainPath(raw)) return { path: raw, query: '', authority: undefined }
  const absolute = raw.startsWith('/') ? undefined : ABSOLUTE_FORM.exec(raw)
  if (absolute === null) return 'The request target must be a path or an absolute http URI.'
  const authority = absolute && (absolute[1] ?? '')
  const rest = originForm(raw)
  if (rest.includes('#')) return 'The request target must not have a fragment.'
  const question = rest.indexOf('?')
  const written = question < 0 ? rest : rest.slice(0, question)
  const query = question < 0 ? '' : rest.slice(question)
  const accepted = leniency?.pathParameters === true ? ACCEPTED_WITH_PARAMETERS : ACCEPTED_PATH
  if (!accepted.test(written)) return 'The path has a backslash, a semicolon or a character outside ASCII.'
  if (!VISIBLE.test(query)) return 'The query has a character outside ASCII: it must be percent-encoded.'
  const path = canonicalPath(written, leniency)
  return path === undefined
    ? 'The path has a percent-encoded octet that is malformed or not acceptable.'
    : { path, query, authority }
}

/** Path and query as they were written. An absolute target without a path gets `/`. */
export function originForm(raw: string): string {
  if (raw.startsWith('/')) return raw
  const rest = raw.replace(ABSOLUTE_FORM, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}
