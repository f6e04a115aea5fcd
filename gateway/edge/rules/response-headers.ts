import type { Field } from '../syntax/field.ts'
import { HOP_BY_HOP } from './field-rules.ts'
import { isNominated, nominatedBy } from './hop-by-hop.ts'
import { type ForwardedPolicy, isForOneCache, REPLACED_HEADERS } from './policy/response-policy.ts'
import { INTERACTION_ID } from './request-id.ts'

/** Tells the gateway alone that a session has ended. */
const REVOKE_SESSION = 'x-revoke-session'
export const LIMIT_FIELDS: ReadonlySet<string> = new Set(['ratelimit', 'ratelimit-policy'])

/** Response fields that are not simply passed on. */
export const RESPONSE_PARTS: ReadonlyMap<
  string,
  'dropped' | 'alternative' | 'limit' | 'interaction' | 'length' | 'date'
> = new Map([
  ...[...REPLACED_HEADERS, REVOKE_SESSION, ...HOP_BY_HOP].map((name) => [name, 'dropped'] as const),
  ...[...LIMIT_FIELDS].map((name) => [name, 'limit'] as const),
  ['alt-svc', 'alternative'],
  [INTERACTION_ID, 'interaction'],
  ['content-length', 'length'],
  ['date', 'date'],
])

interface OwnFields {
  readonly limitHeaders: readonly string[]
  readonly interactionId: string | undefined
}

const NO_OWN_FIELDS: OwnFields = { limitHeaders: [], interactionId: undefined }

export interface FilteredHead {
  /** Each ends with CR LF. Hop-by-hop fields, and those that the gateway sets itself, are not among them. */
  readonly lines: string
  readonly contentLength: number | undefined
  readonly dated: boolean
}

/** Repeated fields such as Set-Cookie stay. @param policy of the route */
export function filterResponseHead(
  fields: readonly Field[],
  status: number,
  { limitHeaders, interactionId }: OwnFields = NO_OWN_FIELDS,
  policy?: ForwardedPolicy,
): FilteredHead {
  const nominated = nominatedBy(fields)
  const limited = limitHeaders.length > 0
  let lines = ''
  let contentLength: number | undefined
  let dated = false
  for (const { lower, value, line } of fields) {
    const part = RESPONSE_PARTS.get(lower)
    if (part === 'dropped' || isNominated(lower, nominated)) continue
    if (part === undefined && isForOneCache(lower)) continue
    if (part === 'alternative' && policy?.passesAltSvc !== true) continue
    if (part === 'limit' && limited) continue
    if (part === 'interaction' && interactionId !== undefined) continue
    if (policy?.replaced.has(lower) === true) continue
    if (part === 'length') {
      // These statuses have no body and no length (RFC 9110 section 8.6).
      if (status === 204 || status === 101) continue
      contentLength = Number(value)
      if (String(contentLength) !== value) {
        // Some readers take leading zeros for an octal number.
        lines += `Content-Length: ${contentLength}\r\n`
        continue
      }
    } else if (part === 'date') dated = true
    lines += line
  }
  if (policy !== undefined) lines += policy.added
  return { lines, contentLength, dated }
}

const NO_SESSIONS: readonly string[] = []

/** A field may name several sessions, separated by commas or spaces. */
export function revokedSessions(fields: readonly Field[]): readonly string[] {
  let sessions: string[] | undefined
  for (const { lower, value } of fields) {
    if (lower !== REVOKE_SESSION) continue
    sessions ??= []
    for (const session of value.split(/[ \t,]+/)) if (session !== '') sessions.push(session)
  }
  return sessions ?? NO_SESSIONS
}
