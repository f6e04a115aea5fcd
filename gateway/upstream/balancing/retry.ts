import { ConnectError } from '../undici/undici-connection.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'

/** How far a call had come when it failed. */
export interface Attempted {
  readonly method: string
  readonly hasBody: boolean
  readonly upgrade: boolean
  /** Writing it to a connection had begun. */
  readonly sent: boolean
  /** At least one byte of an answer had come, an interim one included. */
  readonly answerBegan: boolean
  /** It is the second sending already. */
  readonly retried: boolean
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether a failed call may be sent again without the risk that it is carried out twice (RFC 9110 section 9.2.2):
 * where no connection stood (`error` says so), always; where one stood and was lost, once, if nothing of the call had been written, or
 * it is safe, has no body, and nothing of an answer had come.
 */
export function mayRetry(error: Error | undefined, kind: UpstreamFaultKind, attempted: Attempted): boolean {
  if (error instanceof ConnectError) return true
  if (attempted.retried || kind !== 'broken') return false
  if (!attempted.sent) return true
  const { method, hasBody, upgrade, answerBegan } = attempted
  return SAFE_METHODS.has(method) && !hasBody && !upgrade && !answerBegan
}
