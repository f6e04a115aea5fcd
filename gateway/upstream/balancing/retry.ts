import { ConnectError } from '../open-connection.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'

/** How far an exchange had come when it failed. */
interface Attempt {
  readonly method: string
  readonly hasBody: boolean
  readonly upgrade: boolean
  /** Writing the request had begun. */
  readonly sent: boolean
  /** At least one byte of a response had come, interim ones included. */
  readonly responseBegan: boolean
  /** The request was already sent a second time. */
  readonly retried: boolean
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether a failed request may be sent again without the risk that it is carried out twice (RFC 9110 section 9.2.2).
 * Always when no connection was made (`error` is a ConnectError). When an open connection was lost: once, if nothing
 * had been written, or if the method is safe and there was neither a body nor a byte of a response.
 */
export function mayRetry(error: Error | undefined, kind: UpstreamFaultKind, attempt: Attempt): boolean {
  if (error instanceof ConnectError) return true
  if (attempt.retried || kind !== 'broken') return false
  if (!attempt.sent) return true
  const { method, hasBody, upgrade, responseBegan } = attempt
  return SAFE_METHODS.has(method) && !hasBody && !upgrade && !responseBegan
}
