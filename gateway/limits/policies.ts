import { PathTable } from '../http/path-table.ts'
import { rateLimitPolicy } from './fields.ts'
import type { LimitRow } from './row.ts'

/** A row with what is made of it once, at load. */
export interface LimitPolicy {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
  readonly row: LimitRow
  /** Value of the RateLimit-Policy field. */
  readonly policyField: string
}

/** A limit table ready to be looked up by path. */
export interface LimitTable {
  readonly rows: readonly LimitRow[]
  readonly policies: PathTable<LimitPolicy>
}

export function limitTable(rows: readonly LimitRow[]): LimitTable {
  const policies = rows.map((row) => ({
    path: row.path,
    methods: row.methods,
    row,
    policyField: rateLimitPolicy(row),
  }))
  return { rows, policies: new PathTable(policies) }
}
