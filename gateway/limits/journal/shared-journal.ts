import { writeSync } from 'node:fs'
import type { RowRecord } from '../table/row-matching.ts'
import type { HitStore, RestoreTarget } from './hit-store.ts'
import type { JournalFlags, OnJournalFailure } from './journal-options.ts'
import { type Hit, hitLine } from './journal-records.ts'
import type { Write } from './journal-tail.ts'

/** All counts of another thread at the time this one started. */
export interface CopiedCounts {
  readonly records: readonly RowRecord[]
  /** Oldest first for each key. */
  readonly hits: readonly Hit[]
}

export interface SharedJournalOptions {
  readonly copy: CopiedCounts
  /** Of the segment being written, opened by the thread that has the journal; undefined when it has none. */
  readonly descriptor: number | undefined
  readonly flags: JournalFlags
  /** `degraded` when left out. */
  readonly onFailure?: OnJournalFailure
  /** Told of every hit; `written`: a durable one has been handed to the operating system. */
  readonly onHit: (hit: Hit, written: boolean) => void
  /** In place of fs.writeSync. */
  readonly write?: Write
}

/** After a failed write the next attempt waits this long: one attempt can cost milliseconds on a full disk. */
const RETRY_MS = 250

/**
 * The journal of a worker. It appends the worker's hits to the segment that the main thread opened; the main thread's
 * `Journal` does everything else, including hits that a worker could not write. Only one thread may use it at a time.
 */
export class SharedJournal implements HitStore {
  readonly #options: SharedJournalOptions
  readonly #write: Write
  #copy: CopiedCounts | undefined
  #descriptor: number | undefined
  #nextId = 1
  #retryAtMs = Number.NEGATIVE_INFINITY

  constructor(options: SharedJournalOptions) {
    this.#options = options
    this.#write = options.write ?? (writeSync as Write)
    this.#copy = options.copy
    this.#descriptor = options.descriptor
  }

  load(_nowMs: number, target: RestoreTarget): void {
    target.rows(this.#copy?.records ?? [])
    for (const hit of this.#copy?.hits ?? []) target.hit(hit)
    this.#copy = undefined
  }

  /** The next ids, as the thread that has the journal gave them to the same rows. */
  numberFrom(id: number): void {
    this.#nextId = id
  }

  newId(): number {
    return this.#nextId++
  }

  /** The segment to write to from now on. */
  moveTo(descriptor: number | undefined): void {
    this.#descriptor = descriptor
  }

  append(hit: Hit): boolean {
    const written = this.#put(hit)
    if (!written && this.#options.onFailure === 'unready') {
      this.#options.flags.failing.raised = true
      return false
    }
    this.#options.onHit(hit, written)
    return true
  }

  /** Always true here: the main thread reports failures. */
  get isWritable(): boolean {
    return true
  }

  tend(): void {}

  brief(hit: Hit): void {
    this.#options.onHit(hit, false)
  }

  declare(): void {}

  appendAll(): void {}

  close(): void {}

  /** Whether the line has been handed over whole. */
  #put(hit: Hit): boolean {
    if (this.#descriptor === undefined || hit.atMs < this.#retryAtMs) return false
    const { torn } = this.#options.flags
    const line = torn.raised ? `\n${hitLine(hit)}` : hitLine(hit)
    let sent = 0
    try {
      sent = this.#write(this.#descriptor, line)
    } catch {
      // The thread that has the journal meets the same error with this hit, and reports it.
    }
    const whole = sent === Buffer.byteLength(line)
    if (sent > 0) torn.raised = !whole
    if (!whole) this.#retryAtMs = hit.atMs + RETRY_MS
    return whole
  }
}
