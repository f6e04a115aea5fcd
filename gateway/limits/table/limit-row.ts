import type { Written } from '../../config/keys/key-types.ts'
import type { LIMIT_KEYS } from '../../config/keys/limits-keys.ts'

/** A row of the limit table with its defaults. Immutable. */
export interface LimitRow extends Omit<Written<typeof LIMIT_KEYS>, 'name' | 'methods'> {
  /** Unique: policy name in the RateLimit fields, label of metrics. */
  readonly name: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  readonly windowMs: number
}

/** A row as config/limits.json has it, for the audit trail. */
export function writtenRow(row: LimitRow): object {
  const { path, limit, window, purpose, name, per, mode, onStoreFailure } = row
  const methods = row.methods === undefined ? undefined : [...row.methods]
  return { path, limit, window, purpose, name, methods, per, mode, onStoreFailure }
}
