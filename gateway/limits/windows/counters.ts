import type { RowRecord } from '../table/row-matching.ts'
import {
  type Entry,
  isExpired,
  plannedLimit,
  refusedForCapacity,
  type Take,
  Window,
  type WindowRule,
  windowRule,
} from './window.ts'

/** Keys of all rows, at about 250 bytes each. */
const MAX_KEYS = 1_000_000
/** How many keys one `take` checks: more than it may add. */
const SWEEP = 2
/** Keys of a row, and of another, that are checked before the row refuses a new key. */
const SWEEP_FOR_ROOM = 64
const ROWS_FOR_ROOM = 64

type KeyHolder = Pick<Counters, 'size' | 'dropIdle'>

/** Bounds the keys in memory. Half are equal shares of the rows, safe from floods on other rows; the rest is common. */
export class KeyBudget {
  readonly #max: number
  #share = 0
  #common = 0
  #used = 0
  #rows: readonly KeyHolder[] = []
  #turn = 0

  constructor(max: number = MAX_KEYS) {
    this.#max = max
  }

  divide(rows: readonly KeyHolder[]): void {
    this.#rows = rows
    this.#turn = 0
    this.#share = Math.max(1, Math.floor(this.#max / 2 / Math.max(1, rows.length)))
    this.#common = Math.max(0, this.#max - this.#share * rows.length)
    this.#used = rows.reduce((used, { size }) => used + Math.max(0, size - this.#share), 0)
  }

  /** @param size keys of the row that asks */
  claim(size: number): boolean {
    if (size < this.#share) return true
    if (this.#used >= this.#common) return false
    this.#used++
    return true
  }

  /** Drops idle keys of the next row with common keys, because a row that gets no requests drops none itself. */
  makeRoom(nowMs: number): void {
    for (let i = 0; i < Math.min(this.#rows.length, ROWS_FOR_ROOM); i++) {
      this.#turn = (this.#turn + 1) % this.#rows.length
      const row = this.#rows[this.#turn]
      if (row === undefined || row.size <= this.#share) continue
      row.dropIdle(SWEEP_FOR_ROOM, nowMs)
      return
    }
  }

  release(size: number): void {
    if (size > this.#share) this.#used--
  }
}

export class Counters {
  readonly #windows = new Map<string, Window>()
  readonly #budget: KeyBudget
  #cursor: MapIterator<[string, Window]>
  #record: RowRecord
  #rule: WindowRule
  /** Rules of plans, by factor. */
  readonly #planned = new Map<number, WindowRule>()

  constructor(record: RowRecord, budget: KeyBudget) {
    this.#budget = budget
    this.#record = record
    this.#rule = windowRule(record.limit, record.windowMs, record.horizonMs)
    this.#cursor = this.#windows.entries()
  }

  get record(): RowRecord {
    return this.#record
  }

  /** Each window is converted at its next take. */
  edit(record: RowRecord): void {
    this.#record = record
    this.#rule = windowRule(record.limit, record.windowMs, record.horizonMs)
    this.#planned.clear()
  }

  #ruleOf(factor: number): WindowRule {
    const known = this.#planned.get(factor)
    if (known !== undefined) return known
    const { limit, windowMs, horizonMs } = this.#record
    const rule = windowRule(plannedLimit(limit, factor), windowMs, horizonMs, factor)
    this.#planned.set(factor, rule)
    return rule
  }

  /** Edits a limit outside the table. Expired hits never count again. */
  limitTo(limit: number, windowMs: number, nowMs: number): void {
    const { record } = this
    if (limit === record.limit && windowMs === record.windowMs) return
    const expiredMs = Math.max(record.horizonMs ?? Number.NEGATIVE_INFINITY, nowMs - record.windowMs)
    const horizonMs = windowMs === record.windowMs ? record.horizonMs : expiredMs
    this.edit({ ...record, limit, windowMs, horizonMs })
  }

  get size(): number {
    return this.#windows.size
  }

  /** Stays valid while keys come and go. */
  keys(): MapIterator<string> {
    return this.#windows.keys()
  }

  countOf(key: string, nowMs: number): number {
    return this.#windows.get(key)?.countAt(nowMs, this.#rule) ?? 0
  }

  /** The limit under the plan of the last take. */
  limitOf(key: string): number {
    const factor = this.#windows.get(key)?.factor
    return (factor === undefined ? this.#rule : this.#ruleOf(factor)).limit
  }

  /**
   * Counts `cost` hits if the limit allows it. Without memory a new key is refused: a flood must not erase counts.
   *
   * @param isCounted false: only decides
   * @param factor of the caller's plan
   */
  take(key: string, nowMs: number, cost = 1, isCounted = true, factor?: number): Take {
    this.dropIdle(SWEEP, nowMs)
    const rule = factor === undefined ? this.#rule : this.#ruleOf(factor)
    let window = this.#windows.get(key)
    if (window === undefined) {
      if (!this.#claimKey(nowMs)) return refusedForCapacity(rule)
      window = new Window()
      this.#windows.set(key, window)
    }
    return window.take(nowMs, rule, cost, isCounted)
  }

  giveBack(key: string, cost: number): void {
    this.#windows.get(key)?.giveBack(cost)
  }

  /** Counts hits of an earlier run, oldest first, whatever the budget. */
  restore(key: string, [atMs, count]: Entry, nowMs: number): void {
    if (isExpired(atMs, nowMs, this.#rule)) return
    const window = this.#windows.get(key) ?? new Window()
    this.#windows.set(key, window)
    window.add(atMs, count, this.#rule)
  }

  /** Leaves out expired entries. Those of a key come oldest first. */
  *entries(nowMs: number): Iterable<readonly [key: string, entry: Entry]> {
    for (const [key, window] of this.#windows) {
      for (const entry of window.entries()) if (!isExpired(entry[0], nowMs, this.#rule)) yield [key, entry]
    }
  }

  #claimKey(nowMs: number): boolean {
    if (this.#budget.claim(this.#windows.size)) return true
    this.dropIdle(SWEEP_FOR_ROOM, nowMs)
    this.#budget.makeRoom(nowMs)
    return this.#budget.claim(this.#windows.size)
  }

  /** Looks at the next few keys, in rotation. */
  dropIdle(keys: number, nowMs: number): void {
    for (let i = 0; i < keys; i++) {
      const next = this.#cursor.next()
      if (next.done) {
        this.#cursor = this.#windows.entries()
        continue
      }
      const [key, window] = next.value
      if (window.isIdle(nowMs, this.#rule)) {
        this.#budget.release(this.#windows.size)
        this.#windows.delete(key)
      }
    }
  }
}

/** Counters that are not kept on disk. */
export function countersOutsideTable(limit: number, windowMs: number): Counters {
  const budget = new KeyBudget()
  const record = { id: 0, name: '', path: '*', methods: null, limit, windowMs, horizonMs: null }
  const counters = new Counters(record, budget)
  budget.divide([counters])
  return counters
}
