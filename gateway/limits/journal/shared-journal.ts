import { AppendLog, type LogFlags, type Write } from '../../storage/append-log.ts'
import type { RowRecord } from '../table/row-matching.ts'
import type { HitStore, RestoreTarget } from './hit-store.ts'
import { type OnJournalFailure, RETRY_MS } from './journal-options.ts'
import { type Hit, hitLine } from './journal-records.ts'

/** All counts of another thread at the time this one started. */
export interface CopiedCounts {
  readonly records: readonly RowRecord[]
  /** Oldest first for each key. */
  readonly hits: readonly Hit[]
}

export interface SharedJournalOptions {
  readonly copy: CopiedCounts
  /** The open file, opened by the main thread; undefined when there is none. */
  readonly descriptor: number | undefined
  readonly flags: LogFlags
  /** `degraded` when left out. */
  readonly onFailure?: OnJournalFailure
  /** Receives every hit; `written`: a durable one is in the file. */
  readonly onHit: (hit: Hit, written: boolean) => void
  /** In place of fs.writeSync. */
  readonly write?: Write
}

/**
 * The journal of a worker. It appends the worker's hits to the file that the main thread opened; the main thread's `Journal`
 * does everything else, including hits that a worker could not write. Only one thread may use it at a time.
 */
export class SharedJournal implements HitStore {
  readonly #options: SharedJournalOptions
  readonly #log: AppendLog
  #copy: CopiedCounts | undefined
  #nextId = 1

  constructor(options: SharedJournalOptions) {
    const { copy, descriptor, flags, write } = options
    this.#options = options
    this.#copy = copy
    // The main thread meets the same error, and reports it.
    this.#log = new AppendLog({ flags, write, retryMs: RETRY_MS, onFault: () => {} })
    this.#log.use(descriptor)
  }

  load(_nowMs: number, target: RestoreTarget): void {
    target.rows(this.#copy?.records ?? [])
    for (const hit of this.#copy?.hits ?? []) target.hit(hit)
    this.#copy = undefined
  }

  /** The next ids, as the main thread gave them to the same rows. */
  numberFrom(id: number): void {
    this.#nextId = id
  }

  newId(): number {
    return this.#nextId++
  }

  /** The file to write to from now on. */
  moveTo(descriptor: number | undefined): void {
    this.#log.use(descriptor)
  }

  append(hit: Hit): boolean {
    const written = this.#log.append(hitLine(hit), hit.atMs)
    if (!written && this.#options.onFailure === 'unready') return false
    this.#options.onHit(hit, written)
    return true
  }

  brief(hit: Hit): void {
    this.#options.onHit(hit, false)
  }

  /** Always true here: the main thread reports failures. */
  get isWritable(): boolean {
    return true
  }

  maintain(): void {}

  putTable(): void {}

  appendAll(): void {}

  close(): void {}
}
