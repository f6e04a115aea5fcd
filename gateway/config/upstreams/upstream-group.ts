import type { WrittenGateway } from '../keys/gateway-keys.ts'

/** Equal services behind one name, and how requests are shared among them. Plain data, immutable. */
export interface UpstreamGroup extends UpstreamPolicy {
  readonly name: string
  /**
   * At least one (of the default group as the file has it, none): `http://host:port`, `https://host:port`, `unix:/path.sock`; or all
   * of `h2c://host:port`, `h2://host:port`.
   */
  readonly targets: readonly string[]
  readonly tls: UpstreamTlsSettings | undefined
}

/** What a group does beyond the passive rules that always hold. Undefined: not done. */
export interface UpstreamPolicy {
  readonly healthCheck: HealthCheckSettings | undefined
  readonly breaker: BreakerSettings | undefined
  readonly retry: RetrySettings | undefined
  /** How long a target that has recovered gets less than its share. 0: not at all. */
  readonly slowStartMs: number
  /** Exchanges at a time. Undefined: only the bound of all groups holds. */
  readonly maxInFlight: number | undefined
}

type WrittenGroup = WrittenGateway['upstreams'][string]

/** How TLS is spoken with the targets. Undefined: with what Node trusts, from TLS 1.2 on. */
export type UpstreamTlsSettings = NonNullable<WrittenGroup['tls']>

/** Active health checks: GET requests to each target. */
export type HealthCheckSettings = NonNullable<WrittenGroup['healthCheck']>

/** When a target is given no requests at all, and how it is tried again. */
export type BreakerSettings = NonNullable<WrittenGroup['breaker']>

/** Which responses make a request go out again, and how often altogether. */
export type RetrySettings = NonNullable<WrittenGroup['retry']>

/** The group of `upstream` and GATEWAY_UPSTREAM, for routes that name no other. */
export const DEFAULT_GROUP = 'default'

export const NO_POLICY: UpstreamPolicy = {
  healthCheck: undefined,
  breaker: undefined,
  retry: undefined,
  slowStartMs: 0,
  maxInFlight: undefined,
}
