import type { Hit } from './journal/journal-records.ts'
import { isDurable, type Journal } from './journal/limit-journal.ts'
import { type Caller, limitKey } from './limit-key.ts'
import { type LimitRow, type Limits, LimitTable, passes, windowsOf } from './table/limit-table.ts'
import { editedRecord, matchRows, type RowRecord, recordOf } from './table/row-matching.ts'
import { Counters, KeyBudget } from './windows/counters.ts'
import { isAllowed, type Take } from './windows/window.ts'

export const UNCOUNTED: Take = { allowed: true, remaining: 0, resetSeconds: 1, uncounted: true }
export const UNRECORDED: Take = { allowed: false, remaining: 0, resetSeconds: 1, unrecorded: true }

interface Asked {
  readonly caller: Caller | undefined
  readonly nowMs: number
  readonly shared: Take | 'away' | undefined
  /** Where the request was counted, for the journal. */
  readonly counted: Counted[]
}

interface Counted {
  readonly counters: Counters
  readonly key: string
  readonly cost: number
}

/** The limit table in force and the hits of its rows. Synchronous: no take comes between a check and its count. */
export class Limiter {
  readonly #clock: () => number
  readonly #journal: Journal | undefined
  readonly #budget: KeyBudget
  /** Includes rows of earlier tables, with the counters of their successors. */
  readonly #countersOf = new WeakMap<LimitRow, Counters>()
  #table = new LimitTable([])
  #counters: readonly Counters[] = []
  #rows: readonly LimitRow[] = []
  #lastId = 0
  #closed = false

  /**
   * Loads the counts of the journal; the first `replace` assigns them to rows.
   *
   * @param options.clock epoch milliseconds that never go back
   * @param options.journal undefined: counts end with the process
   * @param options.maxKeys of all rows together
   */
  constructor(options: { clock: () => number; journal?: Journal | undefined; maxKeys?: number }) {
    this.#clock = options.clock
    this.#journal = options.journal
    this.#budget = new KeyBudget(options.maxKeys)
    this.#restore()
  }

  /** Each window goes on with the counts of an old one, as `matchRows` says. */
  replace(rows: readonly LimitRow[], plans?: Limits['plans']): void {
    const nowMs = this.#clock()
    const olds = new Map(this.#counters.map((counters) => [counters.record, counters]))
    const windows = rows.flatMap(windowsOf)
    const matched = matchRows([...olds.keys()], windows)
    /** Rows that take counters over, by old record; others copy them. */
    const heirs = new Map<RowRecord, LimitRow>()
    for (const [row, old] of matched)
      if (!heirs.has(old) || old.windowMs === row.windowMs) heirs.set(old, row)
    this.#counters = windows.map((row) => {
      const old = matched.get(row)
      const counters = old && olds.get(old)
      if (counters === undefined) return new Counters(recordOf(row, this.#newId()), this.#budget)
      return heirs.get(counters.record) === row ? counters : this.#copy(counters, row, nowMs)
    })
    for (const [at, row] of windows.entries()) {
      const counters = this.#counters[at] as Counters
      if (heirs.get(counters.record) === row) this.#edit(counters, row, nowMs)
      this.#countersOf.set(row, counters)
    }
    this.#table = new LimitTable(rows, plans)
    this.#rows = windows
    this.#budget.divide(this.#counters)
    if (!this.#closed) this.#putTable(nowMs)
  }

  find(path: string, method: string, plan?: string): LimitRow | undefined {
    return this.#table.find(path, method, plan)
  }

  /**
   * Counts the request in all windows of the rows, if each enforced one allows it.
   *
   * @param caller for the keys of rows beside `row`; undefined: `key`
   * @param shared what the store decided, or `away`; undefined: there is no store. With a store, only rows with
   *   `onStoreFailure: local` are counted here. If the store allowed the request, each of their windows that still has
   *   room counts it, whatever the others say.
   * @throws Error for a row that was in no table
   */
  take(row: LimitRow, key: string, caller?: Caller, shared?: Take | 'away'): Take {
    const counters = this.#countersFor(row)
    // After `close`, another process may be counting.
    if (this.#closed) return UNRECORDED
    const nowMs = this.#clock()
    const isAlone = row.next === undefined && row.beside === undefined
    const isHere = row.onStoreFailure === 'local' && (shared === 'away' || shared?.allowed)
    if (!isAlone || (shared !== undefined && !isHere))
      return this.#takeTogether(row, key, { caller, nowMs, shared, counted: [] })
    const take = counters.take(key, nowMs, row.cost, true, row.factor)
    const { record } = counters
    if (!take.allowed || this.#journal === undefined || !isDurable(record)) return take
    if (this.#journal.append({ id: record.id, atMs: nowMs, key, count: row.cost })) return take
    counters.giveBack(key, row.cost)
    return UNRECORDED
  }

  #countersFor(row: LimitRow): Counters {
    const counters = this.#countersOf.get(row.origin ?? row)
    if (counters === undefined) throw new Error(`limit "${row.name}" was never in the table`)
    return counters
  }

  #takeTogether(row: LimitRow, key: string, asked: Asked): Take {
    const { nowMs, shared, counted } = asked
    const answer = typeof shared === 'object' ? shared : this.#takeRows(row, key, asked)
    if (!passes(row, answer)) return answer
    const take = this.#takeRows(row, key, asked, answer)
    // The key of one row may have taken the last memory that another row needs.
    const isRefused = typeof shared !== 'object' && !passes(row, take)
    const hit = counted.reduceRight<Hit | undefined>(
      (next, { counters: { record }, key: own, cost: count }) =>
        isDurable(record) ? { id: record.id, atMs: nowMs, key: own, count, next } : next,
      undefined,
    )
    if (!isRefused && (hit === undefined || this.#journal?.append(hit) !== false)) return take
    for (const { counters, key: own, cost } of counted) counters.giveBack(own, cost)
    return isRefused ? take : UNRECORDED
  }

  /** @param answer decision of the rows or the store; undefined: decides, and counts nothing */
  #takeRows(row: LimitRow, key: string, asked: Asked, answer?: Take): Take {
    const { caller, shared } = asked
    const isCounted = answer !== undefined && (row.mode === 'enforce' || isAllowed(answer))
    const isHere = shared === undefined || row.onStoreFailure === 'local'
    const take = isHere ? this.#takeWindows(row, key, asked, isCounted) : UNCOUNTED
    const { beside } = row
    if (beside === undefined) return take
    const besideKey = caller === undefined ? key : limitKey(beside.per, caller.principal, caller.address)
    const besideAnswer = answer && (answer.beside ?? UNCOUNTED)
    return { ...take, beside: this.#takeRows(beside, besideKey, asked, besideAnswer) }
  }

  #takeWindows(row: LimitRow, key: string, asked: Asked, isCounted: boolean): Take {
    const { cost, factor, next } = row
    const counters = this.#countersFor(row)
    const take = counters.take(key, asked.nowMs, cost, isCounted, factor)
    if (isCounted && take.allowed) asked.counted.push({ counters, key, cost })
    return next === undefined ? take : { ...take, next: this.#takeWindows(next, key, asked, isCounted) }
  }

  /** Gives each window as a row of its own. */
  inForce(): { readonly nowMs: number; readonly rows: readonly (readonly [LimitRow, Counters])[] } {
    const rows = this.#rows.map((row) => [row, this.#countersOf.get(row) as Counters] as const)
    return { nowMs: this.#clock(), rows }
  }

  /** Called once a second. */
  maintain(): void {
    const durable = () => this.#counters.filter((counters) => isDurable(counters.record))
    const nowMs = this.#clock()
    this.#journal?.maintain(nowMs, () => hitsOf(durable(), nowMs))
  }

  get isWritable(): boolean {
    if (this.#journal?.isWritable !== false) return true
    return !this.#counters.some((counters) => isDurable(counters.record))
  }

  /** Writes the counts that are not on disk yet. Later takes are refused. @returns false when that failed */
  close(): boolean {
    const nowMs = this.#clock()
    const brief = this.#counters.filter((counters) => !isDurable(counters.record))
    this.#closed = true
    return this.#journal?.close(hitsOf(brief, nowMs), nowMs) !== false
  }

  /** @throws Error when another process has the journal */
  reopen(): void {
    this.#journal?.reopen()
    this.#closed = false
    this.#putTable(this.#clock())
  }

  #putTable(nowMs: number): void {
    this.#journal?.putTable(
      this.#counters.map((counters) => counters.record),
      nowMs,
    )
  }

  #restore(): void {
    const nowMs = this.#clock()
    const byId = new Map<number, Counters>()
    this.#journal?.load(nowMs, {
      rows: (records) => {
        for (const record of records) {
          // If the clock was set back, the horizon lies in the future, and no hit before it would count.
          const horizonMs = (record.horizonMs ?? nowMs) < nowMs ? record.horizonMs : null
          byId.set(record.id, new Counters({ ...record, horizonMs }, this.#budget))
        }
      },
      hit: ({ id, atMs, key, count }) => byId.get(id)?.restore(key, [atMs, count], nowMs),
    })
    this.#counters = [...byId.values()]
  }

  /**
   * Edits a row. A row that becomes durable, or ceases to be, gets a new id: if hits were in segments and in the
   * snapshot under one id, a restart would count them twice.
   */
  #edit(counters: Counters, row: LimitRow, nowMs: number): void {
    const before = counters.record
    const after = editedRecord(before, row, nowMs)
    counters.edit(after)
    if (isDurable(after) === isDurable(before)) return
    counters.edit({ ...after, id: this.#newId() })
    this.#appendAll(counters, nowMs)
  }

  /** Begins a further window of a row with the hits of an old one. */
  #copy(from: Counters, row: LimitRow, nowMs: number): Counters {
    const record = { ...editedRecord(from.record, row, nowMs), id: this.#newId() }
    const copy = new Counters(record, this.#budget)
    for (const [key, entry] of from.entries(nowMs)) copy.restore(key, entry, nowMs)
    this.#appendAll(copy, nowMs)
    return copy
  }

  #appendAll(counters: Counters, nowMs: number): void {
    const { record } = counters
    if (isDurable(record)) this.#journal?.appendAll(record.id, hitsOf([counters], nowMs), nowMs)
  }

  #newId(): number {
    return this.#journal?.newId() ?? ++this.#lastId
  }
}

function* hitsOf(all: readonly Counters[], nowMs: number): Iterable<Hit> {
  for (const counters of all) {
    const { id } = counters.record
    for (const [key, [atMs, count]] of counters.entries(nowMs)) yield { id, atMs, key, count }
  }
}

/** Epoch milliseconds that never jump: wall time now, and monotonic time from then on. */
export function steadyClock(nowMs = Date.now()): () => number {
  const startMs = nowMs - performance.now()
  return () => startMs + performance.now()
}

export class PendingTake {
  readonly row: LimitRow
  #outcome: Take | Error | undefined
  #run: (() => void) | undefined

  constructor(row: LimitRow) {
    this.row = row
  }

  /** @throws Error when nobody could decide */
  get take(): Take | undefined {
    if (this.#outcome instanceof Error) throw this.#outcome
    return this.#outcome
  }

  /** Calls `run` once. It must not throw. */
  whenKnown(run: () => void): void {
    if (this.#outcome === undefined) this.#run = run
    else run()
  }

  settle(outcome: Take | Error): void {
    this.#outcome = outcome
    this.#run?.()
  }
}
