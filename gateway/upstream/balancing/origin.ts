import { isDeepStrictEqual } from 'node:util'
import type { UpstreamPolicy } from '../../config/upstreams/upstream-group.ts'
import type { Address } from '../upstream-address.ts'
import type { UpstreamTlsTerms } from '../upstream-tls.ts'
import { type BreakerState, CircuitBreaker } from './circuit-breaker.ts'
import { Health } from './health.ts'
import type { RetryOutcome } from './retry-budget.ts'

const SMALLEST_SHARE = 0.1

export interface UpstreamsOptions {
  /** As `parseAddress` reads them. */
  readonly urls: readonly string[]
  readonly connectMs: number
  /** From the end of the request until the head of the response. */
  readonly headersMs: number
  readonly maxConnections: number
  /** Monotonic. */
  readonly clock: () => number
  /** Called on each change. Every upstream starts healthy. */
  readonly onHealth: (upstream: string, healthy: boolean) => void
  /** Default: only the rules of `Health`. */
  readonly policy?: Omit<UpstreamPolicy, 'healthCheck' | 'maxInFlight'>
  /** Default: what Node trusts. */
  readonly tls?: UpstreamTlsTerms | undefined
  /** Called on each change. Every breaker starts closed. */
  readonly onBreaker?: (upstream: string, state: BreakerState) => void
  readonly onRetry?: (outcome: RetryOutcome) => void
}

export interface Origin<Pool = unknown> {
  readonly url: string
  readonly health: Health
  readonly pool: Pool
  readonly tls: UpstreamsOptions['tls']
  inFlight: number
  readonly policy: UpstreamsOptions['policy']
  readonly breaker: CircuitBreaker | undefined
  readonly slowStart: SlowStart | undefined
}

/**
 * Makes the origins of a group. A known origin of the same URL gives its health, and its connections if TLS is the
 * same. If breaker and slow start are the same too, the known origin itself is used.
 */
export function createOrigins<Pool>(
  addresses: readonly Address[],
  options: UpstreamsOptions,
  {
    known,
    createPool,
  }: {
    readonly known: readonly Origin<Pool>[] | undefined
    createPool(address: Address, health: Health): Pool
  },
): readonly Origin<Pool>[] {
  return addresses.map((address) => {
    const { url } = address
    const before = known?.find((origin) => origin.url === url)
    const { policy, tls, clock, onBreaker } = options
    const { breaker, slowStartMs = 0 } = policy ?? {}
    const isReached = before !== undefined && isDeepStrictEqual(before.tls, tls)
    const isGuardedAlike =
      isDeepStrictEqual(before?.policy?.breaker, breaker) &&
      (before?.policy?.slowStartMs ?? 0) === slowStartMs
    if (isReached && isGuardedAlike) return before
    const health = before?.health ?? new Health(clock, (healthy) => options.onHealth(url, healthy))
    // A new target beside known ones starts slowly.
    if (before === undefined && known !== undefined) health.recovered()
    return {
      url,
      health,
      pool: isReached ? before.pool : createPool(address, health),
      tls,
      inFlight: 0,
      policy,
      breaker:
        breaker &&
        new CircuitBreaker(breaker, clock, (state) => {
          if (state === 'closed') health.recovered()
          onBreaker?.(url, state)
        }),
      slowStart: slowStartMs === 0 ? undefined : new SlowStart(slowStartMs, clock),
    }
  })
}

/** A recovered target gets a growing part of its share. */
class SlowStart {
  readonly #durationMs: number
  readonly #clock: () => number
  #credit = 0

  constructor(durationMs: number, clock: () => number) {
    this.#durationMs = durationMs
    this.#clock = clock
  }

  share(recoveredAtMs: number): number {
    const share = (this.#clock() - recoveredAtMs) / this.#durationMs
    return share >= 1 ? 1 : Math.max(SMALLEST_SHARE, share)
  }

  takesTurn(recoveredAtMs: number): boolean {
    this.#credit += this.share(recoveredAtMs)
    if (this.#credit < 1) return false
    this.#credit -= 1
    return true
  }
}
