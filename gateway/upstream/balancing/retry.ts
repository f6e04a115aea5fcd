import type { UpstreamFault, UpstreamFaultKind, UpstreamRequest } from '../upstream-client.ts'

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Whether a request that failed on an open connection may be sent again without the risk that it is carried out twice
 * (RFC 9110 section 9.2.2). Once, if nothing had been written; or if the method is safe and there was neither a body nor
 * a byte of a response.
 */
export function mayRetry(
  kind: UpstreamFaultKind,
  { method, body, upgrade }: Pick<UpstreamRequest, 'method' | 'body' | 'upgrade'>,
  progress: {
    /** Writing the request had begun. */
    readonly sent: boolean
    /** At least one byte of a response had come, interim ones included. */
    readonly responseBegan: boolean
    /** The request was already sent a second time. */
    readonly retried: boolean
  },
): boolean {
  if (progress.retried || kind !== 'broken') return false
  if (!progress.sent) return true
  return isRepeatable({ method, body, upgrade }) && !progress.responseBegan
}

/** Whether a request changes nothing however often it is carried out, and can be sent again as it is. */
export function isRepeatable({
  method,
  body,
  upgrade,
}: Pick<UpstreamRequest, 'method' | 'body' | 'upgrade'>): boolean {
  return SAFE_METHODS.has(method) && body === null && upgrade === undefined
}

/** Whether the upstream failed after the connection was made. */
export function isOfUpstream({ kind, isNeutral }: UpstreamFault): boolean {
  return isNeutral !== true && (kind === 'timeout' || kind === 'broken' || kind === 'malformed')
}
