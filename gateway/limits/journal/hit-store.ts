import type { RowRecord } from '../table/row-matching.ts'
import type { Hit } from './journal-records.ts'

/** Receives stored counts: first the rows, then their hits, for each key oldest first. */
export interface RestoreTarget {
  rows(records: readonly RowRecord[]): void
  hit(hit: Hit): void
}

/** Where a limiter stores the hits it counts. */
export interface HitStore {
  /** Loads the stored counts; called once, before any other method. */
  load(nowMs: number, target: RestoreTarget): void
  /** A new id for a row's counters. */
  newId(): number
  /** Records the table in force from now on. */
  putTable(rows: readonly RowRecord[], nowMs: number): void
  /** Stores one hit of a durable row, allowed now. @returns false when that failed and the hit must not count */
  append(hit: Hit): boolean
  /** Receives one hit of any other row; undefined when such hits are not stored one by one. */
  readonly brief?: ((hit: Hit) => void) | undefined
  /** Stores the hits of a row that got a new id; called before `putTable` with that id. */
  appendAll(id: number, hits: Iterable<Hit>, nowMs: number): void
  /** Retries failed writes and begins new files, once a second. @param durable every current hit of durable rows */
  maintain(nowMs: number, durable: () => Iterable<Hit>): void
  /** Whether hits can be stored now. */
  readonly isWritable: boolean
  /** Stores the rest and closes. @param hits those of rows that are not durable */
  close(hits: Iterable<Hit>, nowMs: number): void
  /** Goes on after `close`; `putTable` follows. Only where a process can hand the files over. @throws Error when another has them */
  reopen?(): void
}
