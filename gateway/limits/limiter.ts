import type { Keeping } from './journal/hit-store.ts'
import type { Hit } from './journal/journal-records.ts'
import { isDurable } from './journal/limit-journal.ts'
import { type LimitPolicy, LimitTable } from './table/limit-lookup.ts'
import type { LimitRow } from './table/limit-row.ts'
import { editedRecord, predecessors, type RowRecord, recordOf } from './table/row-matching.ts'
import { Counters, Room } from './windows/counters.ts'
import type { Take } from './windows/window.ts'

export type { Take } from './windows/window.ts'

const UNKEPT: Take = { allowed: false, remaining: 0, resetSeconds: 1, unkept: true }

/**
 * What has been let through, for every row of the table in force: exact, in memory, and on disk as far as the journal
 * keeps it. Everything is synchronous: nobody takes between a look and a count.
 */
export class Limiter {
  readonly #clock: () => number
  readonly #journal: Keeping | undefined
  readonly #room: Room
  /** Also rows of earlier tables, as long as an exchange holds one: its counters are those of its successor. */
  readonly #countersOf = new WeakMap<LimitRow, Counters>()
  #table = new LimitTable([])
  #counters: readonly Counters[] = []
  #byId: ReadonlyMap<number, Counters> = new Map()
  #lastId = 0

  /**
   * Takes up the counts that the journal kept; they belong to a row from the first `replace` on. `clock` is epoch
   * milliseconds and never runs back; `maxKeys` bounds the keys of all rows together. Without a journal counts end
   * with the process.
   */
  constructor(options: { clock: () => number; journal?: Keeping | undefined; maxKeys?: number }) {
    this.#clock = options.clock
    this.#journal = options.journal
    this.#room = new Room(options.maxKeys)
    this.#restore()
  }

  /**
   * Puts a new table in force as of `nowMs` and keeps the counts: a row goes on with those of the old row with the same path and
   * methods, else of the one with the same name, and starts empty when there is neither.
   *
   * @throws TypeError for a row whose name no RateLimit field can hold; the old table stays in force
   */
  replace(rows: readonly LimitRow[], nowMs: number = this.#clock()): void {
    const table = new LimitTable(rows)
    const olds = new Map(this.#counters.map((counters) => [counters.record, counters]))
    const followed = predecessors([...olds.keys()], rows)
    this.#counters = rows.map((row) => {
      const old = followed.get(row)
      const counters = old === undefined ? undefined : olds.get(old)
      const current = counters === undefined ? this.#begin(row) : this.#edit(counters, row, nowMs)
      this.#countersOf.set(row, current)
      return current
    })
    this.#table = table
    this.#byId = new Map(this.#counters.map((counters) => [counters.record.id, counters]))
    this.#room.divide(this.#counters.map((counters) => counters.size))
    this.#journal?.declare(
      this.#counters.map((counters) => counters.record),
      nowMs,
    )
  }

  /** The limit that the table in force sets for a request; undefined when it sets none. */
  find(path: string, method: string): LimitPolicy | undefined {
    return this.#table.find(path, method)
  }

  /**
   * Counts one hit of `key` if `row` lets it through; a refused hit leaves no trace. For windows of an hour and more
   * the hit has been handed to the operating system when this returns. A row of an earlier table counts under the
   * row that followed it. In shadow mode the answer is the same: what it means is up to the caller. Throws for a row
   * that was in no table.
   */
  take(row: LimitRow, key: string): Take {
    const counters = this.#countersOf.get(row)
    if (counters === undefined) throw new Error(`limit "${row.name}" was never in the table`)
    const nowMs = this.#clock()
    const take = counters.take(key, nowMs)
    if (take.allowed && this.#journal !== undefined) {
      const { record } = counters
      if (isDurable(record)) {
        if (this.#journal.append({ id: record.id, atMs: nowMs, key, count: 1 })) return take
        counters.giveBack(key)
        return UNKEPT
      }
      this.#journal.brief?.({ id: record.id, atMs: nowMs, key, count: 1 })
    }
    return take
  }

  /**
   * Counts a hit that a limiter with the same table let through. Hits must come in the order in which they were let
   * through, and no table in between. One of a row that has gone counts for nobody.
   *
   * @returns whether the row is durable
   */
  count({ id, key, atMs }: Hit): boolean {
    const counters = this.#byId.get(id)
    counters?.count(key, atMs)
    return counters !== undefined && isDurable(counters.record)
  }

  /** Everything that counts now, for another limiter with the same table. */
  copy(): { readonly records: readonly RowRecord[]; readonly hits: Iterable<Hit> } {
    const records = this.#counters.map((counters) => counters.record)
    return { records, hits: hitsOf(this.#counters, this.#clock()) }
  }

  /** Keys that are counted now, over all rows, including idle ones not dropped yet. */
  get keys(): number {
    return this.#counters.reduce((keys, counters) => keys + counters.size, 0)
  }

  /** Hits of new keys refused because there was no room to count them. */
  get turnedAway(): number {
    return this.#counters.reduce((hits, counters) => hits + counters.turnedAway, 0)
  }

  /** Sees to the files of the journal, once a second. */
  tend(): void {
    const durable = () => this.#counters.filter((counters) => isDurable(counters.record))
    const nowMs = this.#clock()
    this.#journal?.tend(nowMs, () => hitsOf(durable(), nowMs))
  }

  /** Whether every hit that has to be kept can be. */
  get isWritable(): boolean {
    if (this.#journal?.isWritable !== false) return true
    return !this.#counters.some((counters) => isDurable(counters.record))
  }

  /** Leaves everything on disk for the next run. Nothing may be taken afterwards. */
  close(): void {
    const nowMs = this.#clock()
    const brief = this.#counters.filter((counters) => !isDurable(counters.record))
    this.#journal?.close(hitsOf(brief, nowMs), nowMs)
  }

  #restore(): void {
    const nowMs = this.#clock()
    const byId = new Map<number, Counters>()
    this.#journal?.load(nowMs, {
      rows: (records) => {
        for (const record of records) byId.set(record.id, new Counters(record, this.#room))
      },
      hit: ({ id, atMs, key, count }) => byId.get(id)?.restore(key, [atMs, count], nowMs),
    })
    this.#counters = [...byId.values()]
  }

  #begin(row: LimitRow): Counters {
    return new Counters(recordOf(row, this.#newId()), this.#room)
  }

  /**
   * An id stands for hits in segments or for hits in the snapshot, never for both, so that none is counted twice after
   * a restart: counters that pass from the one to the other get a new one, and take their hits along.
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
