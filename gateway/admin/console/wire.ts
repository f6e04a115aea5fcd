/** What the gateway tells an open console, as JSON in server-sent events. Any text in it may come from outside. */

/** One moment of the plots. Rates are per second since the moment before. Latencies are null without requests. */
export interface Point {
  /** Epoch seconds, for the plot library. */
  readonly t: number
  readonly ok: number
  readonly clientErrors: number
  readonly serverErrors: number
  readonly refused: number
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
}

/** Event `history`: sent once at the beginning, oldest first. */
export type History = readonly Point[]

export interface Moment {
  readonly point: Point
  readonly state: ConsoleState
}

/** Event `fault`: replaces a moment that could not be made. */
export interface FeedFault {
  readonly reason: string
}

/** Rates are per second over the last minute. */
export interface ConsoleState {
  readonly version: string
  /** The machine's name. */
  readonly host: string
  readonly attention: readonly AttentionLine[]
  readonly node: string
  readonly uptimeSeconds: number
  readonly unready: string | undefined
  readonly degraded: string | undefined
  readonly inFlight: number
  readonly tunnels: number
  readonly statuses: readonly Count[]
  readonly refusals: readonly Count[]
  readonly routes: Shown<{
    readonly route: string
    readonly perSecond: number
    readonly errorsPerSecond: number
    readonly p95Ms: number | null
  }>
  readonly limits: Shown<LimitState>
  /** Undefined: no row has `idempotency`. */
  readonly idempotency: IdempotencyState | undefined
  readonly upstreams: readonly {
    readonly group: string
    readonly upstream: string
    readonly healthy: boolean
    readonly breaker: 'closed' | 'half open' | 'open' | undefined
    readonly perSecond: number
    /** Share of attempts with 5xx or without a whole response. */
    readonly errorShare: number
    readonly p95Ms: number | null
  }[]
  readonly stores: readonly { readonly store: string; readonly writable: boolean }[]
  readonly sharedStore:
    | {
        readonly away: boolean
        readonly roundTripsPerSecond: number
        readonly p95Ms: number | null
        readonly outages: number
        readonly unsentSessions: number
      }
    | undefined
  readonly audit: AuditState
  readonly config: { readonly hash: string; readonly parts: readonly PartState[] }
  readonly certificate: CertificateState | undefined
  /** Client authorities and revocation lists that expire. */
  readonly clientTrust: readonly { readonly what: string; readonly untilSeconds: number }[]
  /** `keysAgeSeconds`: since the last fetch; null: never fetched. */
  readonly issuers: readonly { readonly issuer: string; readonly keysAgeSeconds: number | null }[]
  readonly process: {
    readonly loopLagP99Ms: number | null
    readonly cpuCores: number
    readonly memoryBytes: number
  }
}

export interface AttentionLine {
  /** Names the runbook's chapter. No alert fires for a notice. */
  readonly alert: string
  readonly severity: 'page' | 'ticket' | 'notice'
  readonly text: string
  /** In the words of the log, in figures, or both. */
  readonly cause?: string | undefined
  readonly untilMs?: number
  readonly sinceMs: number
  /** When it happened last, if it is over. */
  readonly endedMs?: number
}

/** The first rows, and how many more there are. */
export interface Shown<Row> {
  readonly rows: readonly Row[]
  readonly more: number
}

export interface Count {
  readonly name: string
  readonly perSecond: number
  readonly total: number
}

export interface LimitState {
  readonly name: string
  readonly path: string
  readonly limit: number
  readonly window: string
  readonly per: string
  readonly mode: string
  readonly allowedPerSecond: number
  readonly refusedPerSecond: number
  readonly callers: number
  /** `limit`: the row's, or that of the caller's plan. */
  readonly nearest: readonly { readonly caller: string; readonly hits: number; readonly limit: number }[]
}

export interface IdempotencyState {
  readonly outcomes: readonly Count[]
  /** Keys in the data directory; undefined when the shared store has them. */
  readonly keys: number | undefined
  readonly bytes: number
  readonly maxKeys: number
  readonly maxBytes: number
}

export interface AuditState {
  readonly file: string
  readonly durability: string
  readonly writable: boolean
  readonly recordsPerSecond: number
  readonly pending: number
  readonly writeErrors: number
  readonly seals:
    | {
        readonly records: number
        /** Epoch seconds; 0: none since the start. */
        readonly lastAtSeconds: number
        /** How long records have waited for the next seal. */
        readonly lagSeconds: number
        /** How often sealed records were no longer in the trail. */
        readonly gaps: number
      }
    | undefined
  readonly witnesses: AttestationState | undefined
  readonly stamps: AttestationState | undefined
  /** Closed segments not yet copied. */
  readonly unshipped: number
}

export interface AttestationState {
  /** How long a checkpoint has waited for attestation. */
  readonly lagSeconds: number
  readonly everySeconds: number
}

export interface PartState {
  readonly part: string
  readonly file: string
  readonly hash: string
  readonly sinceMs: number
  readonly lastReload:
    | {
        readonly atMs: number
        readonly result: string
        readonly faults: readonly string[]
        /** Changed keys that need a restart. */
        readonly needsRestart: readonly string[]
      }
    | undefined
}

export interface CertificateState {
  readonly subject: string
  readonly thumbprint: string
  readonly notAfterSeconds: number
  readonly clientAuthorities: readonly string[]
}
