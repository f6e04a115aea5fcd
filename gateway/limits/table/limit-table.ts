import type { Written } from '../../config/keys/key-types.ts'
import type { LIMIT_KEYS } from '../../config/keys/limits-keys.ts'
import { PathTable, rowForMethod } from '../../edge/rules/path-table.ts'
import { isTemplate } from '../../edge/rules/path-template.ts'
import { isAllowed, plannedLimit, type Take } from '../windows/window.ts'

export interface Limits {
  /** In the order of the file. */
  readonly rows: readonly LimitRow[]
  readonly plans: ReadonlyMap<string, number>
}

/** Immutable. Several windows of a row are a list, linked by `next`. */
export interface LimitRow
  extends Omit<Written<typeof LIMIT_KEYS>, 'name' | 'methods' | 'limit' | 'window' | 'windows'> {
  /** Unique: policy name in the RateLimit fields, label of metrics. Ends in `-<window>` where the row has several. */
  readonly name: string
  /** Undefined: every method. */
  readonly methods: ReadonlySet<string> | undefined
  readonly limit: number
  readonly window: string
  readonly windowMs: number
  /** A request is counted in all windows of a row or in none. */
  readonly next?: LimitRow
  readonly isOverall?: true
  /** The next row that counts the request; rows in shadow mode come last. All enforced rows count it, or none. */
  readonly beside?: LimitRow
  /** Factor of the plan that `limit` is for. */
  readonly factor?: number
  /** The row of the table that this one was made from, and that has the counts. */
  readonly origin?: LimitRow
}

export function rowsOf(row: LimitRow): LimitRow[] {
  return row.beside === undefined ? [row] : [row, ...rowsOf(row.beside)]
}

/** Keeps the counts of `overall` apart from those of other rows. */
export function countedPath({ isOverall, path }: LimitRow): string {
  return isOverall ? `overall ${path}` : path
}

/** True when every window of every enforced row allows the request. */
export function passes({ mode, beside }: LimitRow, take: Take): boolean {
  if (mode === 'enforce' && !isAllowed(take)) return false
  return beside === undefined || take.beside === undefined || passes(beside, take.beside)
}

/** Values of `per` for which a client's plan applies. */
export const PLANNED: ReadonlySet<LimitRow['per']> = new Set(['caller', 'client', 'client+user'])

export function windowsOf(row: LimitRow): LimitRow[] {
  return row.next === undefined ? [row] : [row, ...windowsOf(row.next)]
}

/** The name in limits.json, given or derived. */
export function nameOf({ name, window, next }: LimitRow): string {
  return next === undefined ? name : name.slice(0, -window.length - 1)
}

/** Gives a row as config/limits.json has it, for the audit trail. */
export function writtenRow(row: LimitRow): object {
  const { path, cost, purpose, per, mode, onStoreFailure, isOverall: overall } = row
  const [first, ...more] = windowsOf(row).map(({ limit, window }) => ({ limit, window }))
  const counted = more.length === 0 ? first : { windows: [first, ...more] }
  const methods = row.methods === undefined ? undefined : [...row.methods]
  return { path, ...counted, cost, purpose, name: nameOf(row), methods, per, mode, onStoreFailure, overall }
}

export function writtenLimits({ rows, plans }: Limits): object[] {
  return [...rows.map(writtenRow), ...[...plans].map(([plan, factor]) => ({ plan, factor }))]
}

export class LimitTable {
  readonly #rows: PathTable<LimitRow>
  readonly #overall: readonly {
    readonly row: LimitRow
    readonly covers: (path: string) => boolean
  }[]
  readonly #plans: Limits['plans']
  readonly #none = new Together([])

  constructor(rows: readonly LimitRow[], plans: Limits['plans'] = new Map()) {
    this.#rows = new PathTable(rows.filter(({ isOverall }) => isOverall === undefined))
    this.#overall = rows.filter(({ isOverall }) => isOverall).map((row) => ({ row, covers: coverOf(row) }))
    this.#plans = plans
  }

  /** Ignores letter case and a closing slash. @returns the same object for the same limits */
  find(path: string, method: string, plan?: string): LimitRow | undefined {
    const entry = this.#rows.findFolded(path)
    const row = entry === undefined ? undefined : rowForMethod(entry, method)
    const factor = plan === undefined ? undefined : this.#plans.get(plan)
    if (factor === undefined && this.#overall.length === 0) return row
    let together = row === undefined ? this.#none : this.#none.with(row)
    const closed = closedPath(path)
    for (const { row: other, covers } of this.#overall)
      if (other.methods?.has(method) !== false && covers(closed)) together = together.with(other)
    return together.under(factor)
  }
}

function closedPath(path: string): string {
  const lower = path.toLowerCase()
  return lower.endsWith('/') ? lower : `${lower}/`
}

/** Makes a function that tells whether the row covers a path, given as `closedPath` makes it. */
function coverOf(row: LimitRow): (closed: string) => boolean {
  if (isTemplate(row.path)) {
    const table = new PathTable([row])
    return (closed) => table.findFolded(closed) !== undefined
  }
  const own = closedPath(row.path)
  if (!row.path.endsWith('/*')) return (closed) => closed === own
  const prefix = own.slice(0, -2)
  return (closed) => closed.startsWith(prefix)
}

/** Rows that count the same requests. The table bounds the number of such lists, whatever paths are asked for. */
class Together {
  readonly #rows: readonly LimitRow[]
  readonly #more = new Map<LimitRow, Together>()
  readonly #lists = new Map<number | undefined, LimitRow | undefined>()

  constructor(rows: readonly LimitRow[]) {
    this.#rows = rows
  }

  with(row: LimitRow): Together {
    const known = this.#more.get(row)
    if (known !== undefined) return known
    const more = new Together([...this.#rows, row])
    this.#more.set(row, more)
    return more
  }

  under(factor: number | undefined): LimitRow | undefined {
    if (this.#lists.has(factor)) return this.#lists.get(factor)
    const isShadow = ({ mode }: LimitRow) => mode === 'shadow'
    const ordered = [...this.#rows.filter((row) => !isShadow(row)), ...this.#rows.filter(isShadow)]
    const list = ordered.reduceRight<LimitRow | undefined>(
      (beside, row) => linked(row, factor, beside),
      undefined,
    )
    this.#lists.set(factor, list)
    return list
  }
}

function linked(row: LimitRow, factor: number | undefined, beside?: LimitRow): LimitRow {
  const isPlanned = factor !== undefined && PLANNED.has(row.per)
  if (!isPlanned && beside === undefined) return row
  const { limit, next } = row
  return {
    ...row,
    origin: row,
    ...(isPlanned && { factor, limit: plannedLimit(limit, factor) }),
    ...(next && { next: linked(next, factor) }),
    ...(beside && { beside }),
  }
}

const policyFields = new WeakMap<LimitRow, string>()

/** `"login";q=5;w=60` for each window (draft-ietf-httpapi-ratelimit-headers-11 section 3). Names need no escaping. */
export function rateLimitPolicy(row: LimitRow): string {
  return policyFields.getOrInsertComputed(row, policyField)
}

function policyField(row: LimitRow): string {
  return rowsOf(row)
    .filter(({ mode }) => mode === row.mode)
    .flatMap(windowsOf)
    .map(({ name, limit, windowMs }) => `"${name}";q=${limit};w=${Math.ceil(windowMs / 1000)}`)
    .join(', ')
}

/** `"login";r=4;t=60` for each counted window (same draft, section 4). */
export function rateLimit({ name, next, beside }: LimitRow, take: Take): string {
  const item = take.uncounted ? '' : `"${name}";r=${take.remaining};t=${take.resetSeconds}`
  const own = next === undefined || take.next === undefined ? item : `${item}, ${rateLimit(next, take.next)}`
  if (beside === undefined || take.beside === undefined || beside.mode === 'shadow') return own
  const others = rateLimit(beside, take.beside)
  return own === '' || others === '' ? own + others : `${own}, ${others}`
}

export function refusingWindows(row: LimitRow, take: Take): (readonly [window: LimitRow, take: Take])[] {
  const { next } = row
  const others = next === undefined || take.next === undefined ? [] : refusingWindows(next, take.next)
  return take.allowed ? others : [[row, take], ...others]
}
