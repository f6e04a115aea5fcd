import type { RowRecord } from '../table/row-matching.ts'
import type { Hit } from './journal-records.ts'

/** Where the counts of an earlier run, or of another thread, go: first the rows, then each of their hits, oldest first for each key. */
export interface RestoreTarget {
  rows(records: readonly RowRecord[]): void
  hit(hit: Hit): void
}

/** Whom a limiter tells what it counts, so that it is not lost with it. */
export interface HitStore {
  /** Gives what was kept; called once, before anything is told. */
  load(nowMs: number, target: RestoreTarget): void
  /** An id that no counters have had. */
  newId(): number
  /** The table in force from now on. */
  declare(rows: readonly RowRecord[], nowMs: number): void
  /** One hit under a durable row, let through now. @returns false when it could not be kept, and must not count */
  append(hit: Hit): boolean
  /** One hit under any other row; undefined where they are not kept one by one. */
  readonly brief?: ((hit: Hit) => void) | undefined
  /** The hits that a row brings with it under a new id; called before that id is declared. */
  appendAll(id: number, hits: Iterable<Hit>, nowMs: number): void
  /** Sees to the files, once a second. `durable`: every hit that counts under a durable row. */
  tend(nowMs: number, durable: () => Iterable<Hit>): void
  /** Whether hits can be kept now. */
  readonly isWritable: boolean
  /** Nothing is told afterwards. `hits`: those of the rows that are not durable. */
  close(hits: Iterable<Hit>, nowMs: number): void
}
