import { PathTable, rowForMethod } from '../../edge/rules/path-table.ts'
import type { LimitRow } from './limit-row.ts'
import { rateLimitPolicy } from './rate-limit-fields.ts'

/** A row, with the values derived from it at load. */
export interface LimitPolicy {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
  readonly row: LimitRow
  readonly policyField: string
}

/** Finds the limit of a request. Immutable. */
export class LimitTable {
  readonly #policies: PathTable<LimitPolicy>

  /** @throws TypeError for a row whose name no RateLimit field can hold */
  constructor(rows: readonly LimitRow[]) {
    const policies = rows.map((row) => ({
      path: row.path,
      methods: row.methods,
      row,
      policyField: rateLimitPolicy(row),
    }))
    this.#policies = new PathTable(policies)
  }

  /** The limit for a path and method; letter case and a closing slash make no difference. */
  find(path: string, method: string): LimitPolicy | undefined {
    const entry = this.#policies.findFolded(path)
    return entry === undefined ? undefined : rowForMethod(entry, method)
  }
}
