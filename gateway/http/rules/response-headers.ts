import type { Field } from '../syntax/field.ts'
import { isHopByHop, nominatedBy } from './hop-by-hop.ts'
import { REPLACED_HEADERS } from './mandatory-headers.ts'

/** How the upstream tells that a session has ended; it concerns the gateway alone. */
const REVOKE_SESSION = 'x-revoke-session'
const LIMIT_FIELDS: ReadonlySet<string> = new Set(['ratelimit', 'ratelimit-policy'])

/** What goes downstream of an upstream answer's head. */
export interface FilteredHead {
  /** Lines `Name: value`, each with its CR LF, without what belongs to one connection or is set by the gateway itself. */
  readonly lines: string
  readonly contentLength: number | undefined
  /** The lines name Date. */
  readonly dated: boolean
}

/**
 * Filters the head of an upstream answer. Repeats such as Set-Cookie stay as they are.
 *
 * @param limited the answer says what one of our limits still allows: another's word would contradict it.
 */
export function filterResponseHead(fields: readonly Field[], status: number, limited = false): FilteredHead {
  const nominated = nominatedBy(fields)
  let lines = ''
  let contentLength: number | undefined
  let dated = false
  for (const { lower, value, line } of fields) {
    if (REPLACED_HEADERS.has(lower) || lower === REVOKE_SESSION || isHopByHop(lower, nominated)) continue
    if (limited && LIMIT_FIELDS.has(lower)) continue
    if (lower === 'content-length') {
      // RFC 9110 section 8.6: an answer without a body by its status has no length either.
      if (status === 204 || status === 101) continue
      contentLength = Number(value)
      if (String(contentLength) !== value) {
        // Zeros before a number mean eight to some readers.
        lines += `Content-Length: ${contentLength}\r\n`
        continue
      }
    } else if (lower === 'date') dated = true
    lines += line
  }
  return { lines, contentLength, dated }
}

/** The sessions that an upstream response ends: one or several in a field, separated by commas or spaces. */
export function revokedSessions(fields: readonly Field[]): readonly string[] {
  let sessions: string[] | undefined
  for (const { lower, value } of fields) {
    if (lower !== REVOKE_SESSION) continue
    sessions ??= []
    for (const session of value.split(SEPARATORS)) if (session !== '') sessions.push(session)
  }
  return sessions ?? NO_SESSIONS
}

const SEPARATORS = /[\s,]+/
const NO_SESSIONS: readonly string[] = []
