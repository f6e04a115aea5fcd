/** `caller` counts by the principal, or by the address without one; `address` always by the caller's address. */
export type LimitPer = 'caller' | 'address'
/** `shadow` counts and reports in metrics, but never refuses. */
export type LimitMode = 'enforce' | 'shadow'
/** What to do when the shared store does not respond; without a shared store it has no effect. */
export type OnStoreFailure = 'local' | 'deny' | 'allow'

/** One row of the limit table as the operator wrote it, with every default filled in. Immutable. */
export interface LimitRow {
  /** Unique in the table: the policy name in the RateLimit fields and the label of metrics. */
  readonly name: string
  /** Exact path, or a prefix ending in `/*`. */
  readonly path: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  /** Requests allowed in any period of `windowMs`. */
  readonly limit: number
  /** As written: `1m`. */
  readonly window: string
  readonly windowMs: number
  /** Why the limit exists, shown to the caller. */
  readonly purpose: string
  readonly per: LimitPer
  readonly mode: LimitMode
  readonly onStoreFailure: OnStoreFailure
}
