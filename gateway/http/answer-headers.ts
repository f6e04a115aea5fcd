import { isHopByHop, nominatedBy } from './hop-by-hop.ts'
import { REPLACED_HEADERS } from './mandatory-headers.ts'

/** How the upstream tells that a session has ended; it concerns the gateway alone. */
const REVOKE_SESSION = 'x-revoke-session'

/** What goes downstream of an upstream answer's head. */
export interface AnswerHead {
  /** Lines `Name: value`, each with its CR LF, without what belongs to one connection or is set by the gateway itself. */
  readonly lines: string
  readonly contentLength: number | undefined
  /** The lines name Date. */
  readonly dated: boolean
}

/** Filters the raw head of an upstream answer. Repeats such as Set-Cookie stay as they are. */
export function answerHeaders(rawHeaders: readonly string[], status: number): AnswerHead {
  const nominated = nominatedBy(rawHeaders)
  let lines = ''
  let contentLength: number | undefined
  let dated = false
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    const value = rawHeaders[i + 1] as string
    const lower = name.toLowerCase()
    if (REPLACED_HEADERS.has(lower) || lower === REVOKE_SESSION || isHopByHop(lower, nominated)) continue
    if (lower === 'content-length') {
      // RFC 9110 section 8.6: an answer without a body by its status has no length either.
      if (status === 204 || status === 101) continue
      contentLength = Number(value)
    } else if (lower === 'date') dated = true
    lines += `${name}: ${value}\r\n`
  }
  return { lines, contentLength, dated }
}

/** The sessions that an upstream answer ends. */
export function revokedSessions(rawHeaders: readonly string[]): readonly string[] {
  let sessions: string[] | undefined
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length !== REVOKE_SESSION.length || name.toLowerCase() !== REVOKE_SESSION) continue
    sessions ??= []
    sessions.push(rawHeaders[i + 1] as string)
  }
  return sessions ?? NO_SESSIONS
}

const NO_SESSIONS: readonly string[] = []
