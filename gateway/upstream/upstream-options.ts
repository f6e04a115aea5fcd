import type { UpstreamPolicy } from '../config/upstreams/upstream-group.ts'
import type { BreakerState } from './balancing/circuit-breaker.ts'
import type { RetryOutcome } from './balancing/retry-budget.ts'
import type { UpstreamTlsTerms } from './upstream-tls.ts'

/** What the upstream client is made with. Times in milliseconds. */
export interface UpstreamsOptions {
  /**
   * At least one of `http://host:port`, `https://host:port`, `unix:/path.sock`; or of `h2c://host:port`, `h2://host:port`, not
   * mixed with those.
   */
  readonly urls: readonly string[]
  /** For making a connection. */
  readonly connectMs: number
  /** From the request sent until the head of the response. */
  readonly headersMs: number
  /** To each upstream. */
  readonly maxConnections: number
  /** Monotonic. */
  readonly clock: () => number
  /** Called on each change; every upstream starts healthy. */
  readonly onHealth: (upstream: string, healthy: boolean) => void
  /** Default: nothing beyond the passive rules. Active checks are made by `UpstreamGroups`. */
  readonly policy?: Omit<UpstreamPolicy, 'healthCheck' | 'maxInFlight'>
  /** With `https://` and `h2://` URLs. Default: what Node trusts. */
  readonly tls?: UpstreamTlsTerms | undefined
  /** Called on each change; every breaker starts closed. */
  readonly onBreaker?: (upstream: string, state: BreakerState) => void
  /** What came of a retry that the policy asks for. */
  readonly onRetry?: (outcome: RetryOutcome) => void
}
