import type { Written } from '../../config/keys/key-types.ts'
import type { LIMIT_KEYS } from '../../config/keys/limits-keys.ts'
import { PathTable, rowForMethod } from '../../edge/rules/path-table.ts'
import type { Take } from '../windows/window.ts'

/** A row of the limit table with its defaults. One with several windows is a list of them, linked by `next`. Immutable. */
export interface LimitRow
  extends Omit<Written<typeof LIMIT_KEYS>, 'name' | 'methods' | 'limit' | 'window' | 'windows'> {
  /** Unique: policy name in the RateLimit fields, label of metrics. Ends in `-<window>` where the row has several. */
  readonly name: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  readonly limit: number
  readonly window: string
  readonly windowMs: number
  /** The next window of the row. A request is counted in all of them or in none. */
  readonly next?: LimitRow
}

/** The windows of a row, as rows of one window. */
export function windowsOf(row: LimitRow): LimitRow[] {
  return row.next === undefined ? [row] : [row, ...windowsOf(row.next)]
}

/** The name that a row has or would have in limits.json. */
export function nameOf({ name, window, next }: LimitRow): string {
  return next === undefined ? name : name.slice(0, -window.length - 1)
}

/** A row as config/limits.json has it, for the audit trail. */
export function writtenRow(row: LimitRow): object {
  const { path, cost, purpose, per, mode, onStoreFailure } = row
  const [first, ...more] = windowsOf(row).map(({ limit, window }) => ({ limit, window }))
  const counted = more.length === 0 ? first : { windows: [first, ...more] }
  const methods = row.methods === undefined ? undefined : [...row.methods]
  return { path, ...counted, cost, purpose, name: nameOf(row), methods, per, mode, onStoreFailure }
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

/** `"login";q=5;w=60` for each window (draft-ietf-httpapi-ratelimit-headers-11 section 3). No name has a character that must be escaped. */
export function rateLimitPolicy(row: LimitRow): string {
  const known = policyFields.get(row)
  if (known !== undefined) return known
  const item = `"${row.name}";q=${row.limit};w=${Math.ceil(row.windowMs / 1000)}`
  const field = row.next === undefined ? item : `${item}, ${rateLimitPolicy(row.next)}`
  policyFields.set(row, field)
  return field
}

/** `"login";r=4;t=60` for each window (same draft, section 4). */
export function rateLimit({ name, next }: LimitRow, take: Take): string {
  const item = `"${name}";r=${take.remaining};t=${take.resetSeconds}`
  return next === undefined || take.next === undefined ? item : `${item}, ${rateLimit(next, take.next)}`
}

/** The windows of a row that refuse a request, each with its take. */
export function refusingWindows(row: LimitRow, take: Take): (readonly [window: LimitRow, take: Take])[] {
  const { next } = row
  const others = next === undefined || take.next === undefined ? [] : refusingWindows(next, take.next)
  return take.allowed ? others : [[row, take], ...others]
}
