import type { Written } from '../../config/keys/key-types.ts'
import type { LIMIT_KEYS } from '../../config/keys/limits-keys.ts'

/** One row of the limit table as the operator wrote it, with every default filled in. Immutable. */
export interface LimitRow extends Omit<Written<typeof LIMIT_KEYS>, 'name' | 'methods'> {
  /** Unique in the table: the policy name in the RateLimit fields and the label of metrics. */
  readonly name: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  readonly windowMs: number
}

/** A row in the form of config/limits.json, with defaults filled in: for the audit trail. */
export function writtenRow(row: LimitRow): object {
  const { path, limit, window, purpose, name, per, mode, onStoreFailure } = row
  const methods = row.methods === undefined ? undefined : [...row.methods]
  return { path, limit, window, purpose, name, methods, per, mode, onStoreFailure }
}
