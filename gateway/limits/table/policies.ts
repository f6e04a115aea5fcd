import { PathTable } from '../../http/rules/path-table.ts'
import type { LimitRow } from './limit-row.ts'
import { rateLimitPolicy } from './rate-limit-fields.ts'

/** A row with what is made of it once, at load. */
export interface LimitPolicy {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
  readonly row: LimitRow
  /** Value of the RateLimit-Policy field. */
  readonly policyField: string
}

/** A limit table ready to be looked up by path. Immutable. */
export interface LimitTable {
  readonly policies: PathTable<LimitPolicy>
}

/** Makes the table of the rows. Throws a TypeError for a row whose name no RateLimit field can hold. */
export function limitTable(rows: readonly LimitRow[]): LimitTable {
  const policies = rows.map((row) => ({
    path: row.path,
    methods: row.methods,
    row,
    policyField: rateLimitPolicy(row),
  }))
  return { policies: new PathTable(policies) }
}
