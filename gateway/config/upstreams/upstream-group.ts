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

/** How TLS is spoken with the targets. Undefined: with what Node trusts, from TLS 1.2 on. */
export interface UpstreamTlsSettings {
  /** PEM: the authorities that are trusted, instead of those that Node knows. */
  readonly caFile: string | undefined
  /** PEM: our own certificate, with those between it and its authority, and its key; both or none. */
  readonly certFile: string | undefined
  readonly keyFile: string | undefined
  /** Sent as SNI, and looked for in the certificate. Undefined: the host of each target. */
  readonly serverName: string | undefined
  readonly minVersion: TlsVersion
  readonly maxVersion: TlsVersion
}

export type TlsVersion = 'TLSv1.2' | 'TLSv1.3'

/** Active health checks: GET requests to each target. */
export interface HealthCheckSettings {
  readonly path: string
  /** Undefined: host and port of the target. */
  readonly host: string | undefined
  readonly intervalMs: number
  /** Until the head of the response. */
  readonly timeoutMs: number
  /** Good checks in a row after which a target that is down is up. */
  readonly healthyAfter: number
  /** Bad checks in a row after which a target that is up is down. */
  readonly unhealthyAfter: number
  /** Statuses of a good check; undefined: every 2xx. */
  readonly statuses: readonly number[] | undefined
}

/** When a target is given no requests at all, and how it is tried again. */
export interface BreakerSettings {
  /** Failures in a row that open it; 0: any number. */
  readonly failures: number
  /** Percentage of failures in the window that opens it; undefined: any. */
  readonly failurePercent: number | undefined
  readonly windowMs: number
  /** With fewer responses in the window the percentage says nothing. */
  readonly minRequests: number
  /** How long it stays open before probes are let through. */
  readonly openMs: number
  /** How many requests are let through to find out; when all succeed it closes. */
  readonly probes: number
  /** Statuses that count as failures; undefined: every 5xx. */
  readonly statuses: readonly number[] | undefined
}

/** Which responses make a request go out again, and how often altogether. */
export interface RetrySettings {
  readonly statuses: readonly number[]
  /** Retries allowed for every hundred requests of the group. */
  readonly budgetPercent: number
  /** Retries allowed in each second beside that. */
  readonly minPerSecond: number
  /** How often one request goes out again. */
  readonly attempts: number
}

/** The group of `upstream` and GATEWAY_UPSTREAM, for routes that name no other. */
export const DEFAULT_GROUP = 'default'

export const NO_POLICY: UpstreamPolicy = {
  healthCheck: undefined,
  breaker: undefined,
  retry: undefined,
  slowStartMs: 0,
  maxInFlight: undefined,
}
