import type { Written } from '../../config/keys/key-types.ts'
import type { LIMIT_KEYS } from '../../config/keys/limits-keys.ts'
import { PathTable, rowForMethod } from '../../edge/rules/path-table.ts'
import type { Take } from '../windows/window.ts'

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

export class LimitTable {
  readonly #rows: PathTable<LimitRow>

  constructor(rows: readonly LimitRow[]) {
    this.#rows = new PathTable(rows)
  }

  /** Letter case and a closing slash make no difference. */
  find(path: string, method: string): LimitRow | undefined {
    const entry = this.#rows.findFolded(path)
    return entry === undefined ? undefined : rowForMethod(entry, method)
  }
}

const policyFields = new WeakMap<LimitRow, string>()

/** `"login";q=5;w=60` (draft-ietf-httpapi-ratelimit-headers-11 section 3). No name has a character that must be escaped. */
export function rateLimitPolicy(row: LimitRow): string {
  const known = policyFields.get(row)
  if (known !== undefined) return known
  const field = `"${row.name}";q=${row.limit};w=${Math.ceil(row.windowMs / 1000)}`
  policyFields.set(row, field)
  return field
}

/** `"login";r=4;t=60` (same draft, section 4). */
export function rateLimit({ name }: LimitRow, take: Take): string {
  return `"${name}";r=${take.remaining};t=${take.resetSeconds}`
}
