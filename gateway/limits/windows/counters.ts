import type { RowRecord } from '../table/row-matching.ts'
import {
  type Entry,
  isExpired,
  isSliced,
  MAX_LOGGED,
  openWindow,
  refusedForCapacity,
  SliceWindow,
  type Take,
  type Window,
  type WindowRule,
} from './window.ts'

/** Keys of all rows together: at about 250 bytes for a key with few hits, 250 MB. */
const MAX_KEYS = 1_000_000
/** Keys checked for idleness by each take. A take adds at most one key, so two keep ahead of any flood. */
const SWEEP = 2
/** Keys checked for idleness before a new key is refused for lack of memory: of its own row, and of another. */
const SWEEP_FOR_ROOM = 64
/** Rows looked at for one that holds keys of the common half. */
const ROWS_FOR_ROOM = 64

/** A row, as the budget sees it. */
type KeyHolder = Pick<Counters, 'size' | 'dropIdle'>

/**
 * How many keys may be counted. Half of the budget is reserved in equal shares for the rows, the other half is common:
 * a flood of addresses on one row leaves the other rows their shares.
 */
export class KeyBudget {
  readonly #max: number
  #share = 0
  #common = 0
  #used = 0
  #rows: readonly KeyHolder[] = []
  /** Number of the row that was looked at last for room. */
  #turn = 0

  constructor(max: number = MAX_KEYS) {
    this.#max = max
  }

  /** Divides the budget among the rows. */
  divide(rows: readonly KeyHolder[]): void {
    this.#rows = rows
    this.#turn = 0
    this.#share = Math.max(1, Math.floor(this.#max / 2 / Math.max(1, rows.length)))
    this.#common = Math.max(0, this.#max - this.#share * rows.length)
    this.#used = rows.reduce((used, { size }) => used + Math.max(0, size - this.#share), 0)
  }

  /** Takes one key from the budget for a row of `size` keys. @returns false when none is left */
  claim(size: number): boolean {
    if (size < this.#share) return true
    if (this.#used >= this.#common) return false
    this.#used++
    return true
  }

  /** Has the next row with keys of the common half drop idle ones: by itself a row drops them only when it is called. */
  makeRoom(nowMs: number): void {
    for (let i = 0; i < Math.min(this.#rows.length, ROWS_FOR_ROOM); i++) {
      this.#turn = (this.#turn + 1) % this.#rows.length
      const row = this.#rows[this.#turn]
      if (row === undefined || row.size <= this.#share) continue
      row.dropIdle(SWEEP_FOR_ROOM, nowMs)
      return
    }
  }

  /** Gives one key of a row of `size` keys back. */
  release(size: number): void {
    if (size > this.#share) this.#used--
  }
}

/** The windows of one row of the limit table, by key. */
export class Counters {
  readonly #windows = new Map<string, Window>()
  readonly #budget: KeyBudget
  #cursor: MapIterator<[string, Window]>
  #record: RowRecord
  #rule: WindowRule
  #refusedForCapacity = 0

  constructor(record: RowRecord, budget: KeyBudget) {
    this.#budget = budget
    this.#record = record
    this.#rule = windowRuleOf(record)
    this.#cursor = this.#windows.entries()
  }

  get record(): RowRecord {
    return this.#record
  }

  /** Puts an edited row in force; each window is converted at its next take. */
  edit(record: RowRecord): void {
    this.#record = record
    this.#rule = windowRuleOf(record)
  }

  /** Puts another limit in force outside the table. Hits that have expired never count again. */
  limitTo(limit: number, windowMs: number, nowMs: number): void {
    const { record } = this
    if (limit === record.limit && windowMs === record.windowMs) return
    const expiredMs = Math.max(record.horizonMs ?? Number.NEGATIVE_INFINITY, nowMs - record.windowMs)
    const horizonMs = windowMs === record.windowMs ? record.horizonMs : expiredMs
    this.edit({ ...record, limit, windowMs, horizonMs })
  }

  /** Keys in memory, including idle ones that the sweep has not reached yet. */
  get size(): number {
    return this.#windows.size
  }

  /** The keys in memory, in the order in which they came. Stays valid while keys come and go. */
  keys(): MapIterator<string> {
    return this.#windows.keys()
  }

  /** How many hits of `key` count at `nowMs`. Changes nothing. */
  countOf(key: string, nowMs: number): number {
    return this.#windows.get(key)?.countAt(nowMs, this.#rule) ?? 0
  }

  get refusedForCapacity(): number {
    return this.#refusedForCapacity
  }

  /**
   * Counts one hit of `key` if the limit allows it. When the budget is used up, a new key is refused: dropping a counted
   * key for it would let a flood of keys erase all counts.
   */
  take(key: string, nowMs: number): Take {
    this.dropIdle(SWEEP, nowMs)
    let window = this.#windows.get(key)
    if (window === undefined) {
      if (!this.#claimKey(nowMs)) {
        this.#refusedForCapacity++
        return refusedForCapacity(this.#rule)
      }
      window = openWindow(this.#rule)
      this.#windows.set(key, window)
    } else if (window.sliced !== isSliced(this.#rule.limit)) {
      window = this.#convert(key, window, nowMs)
    }
    return window.take(nowMs, this.#rule)
  }

  /** Undoes the last take of `key`, which must have been allowed. */
  giveBack(key: string): void {
    this.#windows.get(key)?.giveBack()
  }

  /** Counts hits of an earlier run, whatever the budget. To be called oldest first. */
  restore(key: string, entry: Entry, nowMs: number): void {
    if (isExpired(entry[0], nowMs, this.#rule)) return
    let window = this.#windows.get(key)
    if (window === undefined) {
      window = openWindow(this.#rule)
      this.#windows.set(key, window)
    }
    if (!window.sliced && window.hitsAt(nowMs, this.#rule) + entry[1] > MAX_LOGGED) {
      window = copyInto(window, new SliceWindow(), this.#rule)
      this.#windows.set(key, window)
    }
    window.add(entry, this.#rule)
  }

  /** Every hit that counts at `nowMs`; for each key oldest first. */
  *entries(nowMs: number): Iterable<readonly [key: string, entry: Entry]> {
    for (const [key, window] of this.#windows) {
      for (const entry of window.entries()) if (!isExpired(entry[0], nowMs, this.#rule)) yield [key, entry]
    }
  }

  /**
   * Converts a window between log and slices after its limit was edited. Slices with as many hits as the limit stay
   * slices: they refuse everything anyway, and as a log they could take any amount of memory.
   */
  #convert(key: string, window: Window, nowMs: number): Window {
    const held = window.hitsAt(nowMs, this.#rule)
    if (window.sliced && held >= this.#rule.limit) return window
    const converted = copyInto(window, openWindow(this.#rule), this.#rule)
    this.#windows.set(key, converted)
    return converted
  }

  #claimKey(nowMs: number): boolean {
    if (this.#budget.claim(this.#windows.size)) return true
    this.dropIdle(SWEEP_FOR_ROOM, nowMs)
    this.#budget.makeRoom(nowMs)
    return this.#budget.claim(this.#windows.size)
  }

  /** Drops the idle ones among the next few keys, in rotation. Another copy may still have them: they count nothing. */
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

function copyInto(from: Window, to: Window, rule: WindowRule): Window {
  for (const entry of from.entries()) to.add(entry, rule)
  return to
}

function windowRuleOf(record: RowRecord): WindowRule {
  const { limit, windowMs, horizonMs } = record
  return { limit, windowMs, horizonMs: horizonMs ?? Number.NEGATIVE_INFINITY }
}

/** Counters of one sliding window outside the limit table. They are not kept on disk. */
export function countersOutsideTable(limit: number, windowMs: number): Counters {
  const budget = new KeyBudget()
  const record = { id: 0, name: '', path: '*', methods: null, limit, windowMs, horizonMs: null }
  const counters = new Counters(record, budget)
  budget.divide([counters])
  return counters
}
