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

export interface LimitPolicy {
  readonly path: string
  readonly methods: ReadonlySet<string> | undefined
  readonly row: LimitRow
  readonly policyField: string
}

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

  /** Letter case and a closing slash make no difference. */
  find(path: string, method: string): LimitPolicy | undefined {
    const entry = this.#policies.findFolded(path)
    return entry === undefined ? undefined : rowForMethod(entry, method)
  }
}

const quotedNames = new WeakMap<LimitRow, string>()

/**
 * `"login";q=5;w=60` (draft-ietf-httpapi-ratelimit-headers-11 section 3).
 *
 * @throws TypeError for a name that a Structured Field String cannot hold
 */
export function rateLimitPolicy(row: LimitRow): string {
  return `${quotedName(row)};q=${row.limit};w=${Math.ceil(row.windowMs / 1000)}`
}

/** `"login";r=4;t=60` (same draft, section 4). @throws like rateLimitPolicy */
export function rateLimit(row: LimitRow, take: Take): string {
  return `${quotedName(row)};r=${take.remaining};t=${take.resetSeconds}`
}

/** A Structured Field String (RFC 9651 section 4.1.6): printable ASCII, quote and backslash escaped. */
function quotedName(row: LimitRow): string {
  const known = quotedNames.get(row)
  if (known !== undefined) return known
  if (!/^[ -~]*$/.test(row.name)) {
    throw new TypeError(
      `limit ${JSON.stringify(row.name)}: a name in RateLimit fields must be printable ASCII`,
    )
  }
  const quoted = `"${row.name.replaceAll(/["\\]/g, '\\$&')}"`
  quotedNames.set(row, quoted)
  return quoted
}
