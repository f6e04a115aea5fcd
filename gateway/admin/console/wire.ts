/** What the gateway tells an open console, as JSON in server-sent events. Every text in it may have been chosen by others. */

/** One moment of the plots. Rates are per second since the moment before. Latencies are null without requests. */
export interface Point {
  /** Epoch seconds, as the plot library wants them. */
  readonly t: number
  readonly ok: number
  readonly clientErrors: number
  readonly serverErrors: number
  readonly refused: number
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
}

/** Event `history`: sent once, at the beginning, with the oldest point first. */
export type History = readonly Point[]

export interface Moment {
  readonly point: Point
  readonly state: ConsoleState
}

/** Event `fault`: sent in place of a moment that could not be made. */
export interface FeedFault {
  readonly reason: string
}

/** The state of the gateway. Rates are per second over the last minute. */
export interface ConsoleState {
  readonly version: string
  /** The name of the machine. */
  readonly host: string
  /** The worst first. */
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
    /** The share of its attempts that got 5xx or no whole response. */
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
  /** `keysAgeSeconds`: since the keys were last fetched; null: they never were. */
  readonly issuers: readonly { readonly issuer: string; readonly keysAgeSeconds: number | null }[]
  readonly process: {
    readonly loopLagP99Ms: number | null
    readonly cpuCores: number
    readonly memoryBytes: number
  }
}

export interface AttentionLine {
  /** Names the chapter of the runbook. No alert fires for a notice. */
  readonly alert: string
  readonly severity: 'page' | 'ticket' | 'notice'
  readonly text: string
  /** The cause in the words of the log. */
  readonly cause?: string | undefined
  /** When something expires. */
  readonly untilMs?: number
  readonly sinceMs: number
  /** When it happened last, if it is over. */
  readonly endedMs?: number
}

/** The first of some rows, and how many more there are. */
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
  /** Requests with a key, by outcome. */
  readonly outcomes: readonly Count[]
  /** The number of keys in the data directory; undefined: the shared store has them. */
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
        /** When the last seal was made, epoch seconds; 0: none since the start. */
        readonly lastAtSeconds: number
        /** For how long records have waited for the next seal. */
        readonly lagSeconds: number
        /** Times that sealed records were no longer in the trail. */
        readonly gaps: number
      }
    | undefined
  readonly witnesses: AttestationState | undefined
  readonly stamps: AttestationState | undefined
  /** Closed segments that are not copied yet. */
  readonly unshipped: number
}

export interface AttestationState {
  /** For how long there has been a checkpoint that is not attested. */
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
        /** Keys that the file changes, and that need a restart. */
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
