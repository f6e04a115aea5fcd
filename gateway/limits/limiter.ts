import type { Hit } from './journal/journal-records.ts'
import { isDurable, type Journal } from './journal/limit-journal.ts'
import { type LimitRow, LimitTable, windowsOf } from './table/limit-table.ts'
import { editedRecord, matchRows, recordOf } from './table/row-matching.ts'
import { Counters, KeyBudget } from './windows/counters.ts'
import { isAllowed, type Take } from './windows/window.ts'

export type { Take } from './windows/window.ts'

const UNRECORDED: Take = { allowed: false, remaining: 0, resetSeconds: 1, unrecorded: true }

/** The limit table in force and the hits of its rows. Synchronous: no take comes between a check and its count. */
export class Limiter {
  readonly #clock: () => number
  readonly #journal: Journal | undefined
  readonly #budget: KeyBudget
  /** Includes rows of earlier tables, which use the counters of their successors. */
  readonly #countersOf = new WeakMap<LimitRow, Counters>()
  #table = new LimitTable([])
  #counters: readonly Counters[] = []
  /** Each of one window. */
  #rows: readonly LimitRow[] = []
  #lastId = 0
  #closed = false

  /**
   * Loads the counts of the journal; the first `replace` assigns them to rows.
   *
   * @param options.clock epoch milliseconds that never go back
   * @param options.journal undefined: counts are lost when the process ends
   * @param options.maxKeys keys of all rows together
   */
  constructor(options: { clock: () => number; journal?: Journal | undefined; maxKeys?: number }) {
    this.#clock = options.clock
    this.#journal = options.journal
    this.#budget = new KeyBudget(options.maxKeys)
    this.#restore()
  }

  /** Puts a new table in force. Each window of a row keeps the counts of an old one, as `matchRows` says. */
  replace(rows: readonly LimitRow[]): void {
    const nowMs = this.#clock()
    const olds = new Map(this.#counters.map((counters) => [counters.record, counters]))
    const windows = rows.flatMap(windowsOf)
    const matched = matchRows([...olds.keys()], windows)
    this.#counters = windows.map((row) => {
      const old = matched.get(row)
      const counters = old === undefined ? undefined : olds.get(old)
      const current =
        counters === undefined
          ? new Counters(recordOf(row, this.#newId()), this.#budget)
          : this.#edit(counters, row, nowMs)
      this.#countersOf.set(row, current)
      return current
    })
    this.#table = new LimitTable(rows)
    this.#rows = windows
    this.#budget.divide(this.#counters)
    if (!this.#closed) this.#putTable(nowMs)
  }

  /** Undefined: nothing limits the request. */
  find(path: string, method: string): LimitRow | undefined {
    return this.#table.find(path, method)
  }

  /**
   * Counts the hits of a request of `key` in all windows of `row` if each of them allows it, whatever its mode. Those of an hour and more are written
   * to the journal.
   *
   * @param hasPassed the store has let the request through: it is counted in each window that allows it
   * @throws Error for a row that was in no table
   */
  take(row: LimitRow, key: string, hasPassed = false): Take {
    const counters = this.#countersFor(row)
    // Another process may be counting.
    if (this.#closed) return UNRECORDED
    const nowMs = this.#clock()
    if (row.next !== undefined && !hasPassed) {
      const asked = this.#takeEach(row, counters, key, nowMs, false)
      if (!isAllowed(asked)) return asked
    }
    const take = this.#takeEach(row, counters, key, nowMs, true)
    const hit = this.#journal && this.#durableHit(row, counters, key, nowMs, take)
    if (hit === undefined || this.#journal?.append(hit)) return take
    this.#giveBack(row, key, take)
    return UNRECORDED
  }

  #countersFor(row: LimitRow): Counters {
    const counters = this.#countersOf.get(row)
    if (counters === undefined) throw new Error(`limit "${row.name}" was never in the table`)
    return counters
  }

  #takeEach(
    { cost, next }: LimitRow,
    counters: Counters,
    key: string,
    nowMs: number,
    isCounted: boolean,
  ): Take {
    const take = counters.take(key, nowMs, cost, isCounted)
    if (next === undefined) return take
    return { ...take, next: this.#takeEach(next, this.#countersFor(next), key, nowMs, isCounted) }
  }

  /** What the journal must have of a take; undefined: nothing. */
  #durableHit(row: LimitRow, { record }: Counters, key: string, atMs: number, take: Take): Hit | undefined {
    const next =
      row.next && take.next && this.#durableHit(row.next, this.#countersFor(row.next), key, atMs, take.next)
    return take.allowed && isDurable(record) ? { id: record.id, atMs, key, count: row.cost, next } : next
  }

  #giveBack(row: LimitRow, key: string, take: Take): void {
    if (take.allowed) this.#countersFor(row).giveBack(key, row.cost)
    if (row.next && take.next) this.#giveBack(row.next, key, take.next)
  }

  /** The rows in force, each of one window, with their counters, for readers. */
  inForce(): { readonly nowMs: number; readonly rows: readonly (readonly [LimitRow, Counters])[] } {
    const rows = this.#rows.map((row) => [row, this.#countersOf.get(row) as Counters] as const)
    return { nowMs: this.#clock(), rows }
  }

  /** To be called once a second. */
  maintain(): void {
    const durable = () => this.#counters.filter((counters) => isDurable(counters.record))
    const nowMs = this.#clock()
    this.#journal?.maintain(nowMs, () => hitsOf(durable(), nowMs))
  }

  get isWritable(): boolean {
    if (this.#journal?.isWritable !== false) return true
    return !this.#counters.some((counters) => isDurable(counters.record))
  }

  /** Writes all counts to disk. Later takes are refused as unrecorded. */
  close(): void {
    const nowMs = this.#clock()
    const brief = this.#counters.filter((counters) => !isDurable(counters.record))
    this.#journal?.close(hitsOf(brief, nowMs), nowMs)
    this.#closed = true
  }

  /** Counts again after `close`. @throws Error when another process has the journal */
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
        for (const record of records) byId.set(record.id, new Counters(record, this.#budget))
      },
      hit: ({ id, atMs, key, count }) => byId.get(id)?.restore(key, [atMs, count], nowMs),
    })
    this.#counters = [...byId.values()]
  }

  /**
   * Hits of an id are either in segments or in the snapshot, so that a restart counts none twice. A row that an edit makes durable, or
   * no longer durable, gets a new id.
   */
  #edit(counters: Counters, row: LimitRow, nowMs: number): Counters {
    const before = counters.record
    const after = editedRecord(before, row, nowMs)
    counters.edit(after)
    if (isDurable(after) === isDurable(before)) return counters
    counters.edit({ ...after, id: this.#newId() })
    if (isDurable(after)) this.#journal?.appendAll(counters.record.id, hitsOf([counters], nowMs), nowMs)
    return counters
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

/** Epoch milliseconds that never jump: the wall time of this call plus the monotonic time since. */
export function steadyClock(): () => number {
  const startMs = Date.now() - performance.now()
  return () => startMs + performance.now()
}

/** A take that the shared store has yet to answer. */
export class PendingTake {
  readonly row: LimitRow
  #outcome: Take | Error | undefined
  #run: (() => void) | undefined

  constructor(row: LimitRow) {
    this.row = row
  }

  /** Undefined: not known yet. @throws Error when nobody could decide */
  get take(): Take | undefined {
    if (this.#outcome instanceof Error) throw this.#outcome
    return this.#outcome
  }

  /** Calls `run` once, when `take` is known. `run` must not throw. */
  whenKnown(run: () => void): void {
    if (this.#outcome === undefined) this.#run = run
    else run()
  }

  settle(outcome: Take | Error): void {
    this.#outcome = outcome
    this.#run?.()
  }
}
