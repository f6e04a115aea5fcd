/** Whom a limit counts: the principal or else the address; always the address; the principal or else the address. */
export type LimitPer = 'caller' | 'address' | 'principal'
/** `shadow` counts and measures but never refuses. */
export type LimitMode = 'enforce' | 'shadow'
/** What happens when a shared store cannot be asked; without a shared store it has no effect. */
export type OnStoreFailure = 'local' | 'deny' | 'allow'

/** One row of the limit table as the operator wrote it, with every default filled in. Immutable. */
export interface LimitRow {
  /** Unique in the table: the policy name in the RateLimit fields and the label of metrics. */
  readonly name: string
  /** Exact path, or a prefix ending in `/*`. */
  readonly path: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  /** Requests let through in any window. */
  readonly limit: number
  /** As written: `1m`. */
  readonly window: string
  readonly windowMs: number
  /** Why the limit is there, in words for the caller. */
  readonly purpose: string
  readonly per: LimitPer
  readonly mode: LimitMode
  readonly onStoreFailure: OnStoreFailure
}
