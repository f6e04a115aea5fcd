import type { WrittenGateway } from '../keys/gateway-keys.ts'

type WrittenGroup = WrittenGateway['upstreams'][string]

/** Equal services behind one name. Plain data. */
export interface UpstreamGroup extends WrittenGroup {
  readonly name: string
  /** At least one, as in `upstream` of the settings. */
  readonly targets: readonly string[]
}

export type UpstreamPolicy = Omit<WrittenGroup, 'targets' | 'tls'>

export type UpstreamTlsSettings = NonNullable<WrittenGroup['tls']>

export type HealthCheckSettings = NonNullable<WrittenGroup['healthCheck']>

export type BreakerSettings = NonNullable<WrittenGroup['breaker']>

export type RetrySettings = NonNullable<WrittenGroup['retry']>

/** The group of `upstream`, for routes that name no other. */
export const DEFAULT_GROUP = 'default'

/** The texts of a group's TLS files, in PEM. Plain data; never shown. */
export interface UpstreamTlsTexts {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

export type UpstreamTlsFiles = Readonly<Record<string, UpstreamTlsTexts>>
