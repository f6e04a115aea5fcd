import { fstatSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { makeDirectory } from '../../storage/make-directory.ts'
import type { ProcessLock } from '../../storage/process-lock.ts'
import type { RowRecord } from '../table/row-matching.ts'
import { ConservativeClock } from './conservative-clock.ts'
import type { HitStore, RestoreTarget } from './hit-store.ts'
import { lockJournal, relockJournal } from './journal-lock.ts'
import type { JournalOptions, JournalReports, OnJournalFailure } from './journal-options.ts'
import { batches, type Hit, hitLine, lastTable, readHits, tableLine } from './journal-records.ts'
import { Tail, type Write } from './journal-tail.ts'
import { Segment, segmentsIn } from './segments.ts'
import { readSnapshot, removeSnapshot, writeSnapshot } from './snapshot.ts'

/** Rows with windows from here on are journalled hit by hit. */
const DURABLE_WINDOW_MS = 3_600_000
/** A segment is closed after an hour, or when it is this large. */
const SEGMENT_MS = 3_600_000
const SEGMENT_BYTES = 16 * 1024 * 1024
/** When a new segment cannot be opened, the old one is written on and the next attempt waits this long. */
const REOPEN_MS = 10_000
/** Hits that may wait in memory while the disk takes nothing: some 100,000. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024

/** Whether the hits of a row are journalled one by one: windows of an hour and more. */
export function isDurable(record: RowRecord): boolean {
  return record.windowMs >= DURABLE_WINDOW_MS
}

/**
 * Counts on disk, in a directory of its own. Hits under windows of an hour and more are appended before the take that
 * counted them returns, to segments that are never rewritten: a segment is removed when no window needs a hit of it.
 * Hits under shorter windows are in one snapshot, written by `close`.
 *
 * What no window needs any more is removed late: a clock that was wrong for one start erases nothing, because time also has
 * to have passed since the newest hit that an earlier run has left, while a gateway ran.
 */
export class Journal implements HitStore {
  readonly #directory: string
  readonly #reports: JournalReports
  readonly #tail: Tail
  readonly #onFailure: OnJournalFailure
  readonly #failing: { raised: boolean }
  #lock: ProcessLock
  /** Oldest first; the last one is being written. */
  readonly #segments: Segment[] = []
  #rows: readonly RowRecord[] = []
  #nextId = 1
  #rotateAtMs = Number.NEGATIVE_INFINITY
  #reopenAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #lostHits = 0
  #conservativeClock = new ConservativeClock(0)
  /** Hits of the snapshot that count no more by the clock of this run, but do by the times in the snapshot. */
  #doubted: Hit[] = []
  /** Files were removed, and everything that counts has to be written again. */
  #incomplete = false

  /** Makes the directory when it is not there. Throws when it cannot be made, or when another gateway holds it. */
  constructor({ directory, reports, onFailure = 'degraded', write, flags }: JournalOptions) {
    this.#directory = directory
    this.#reports = reports
    this.#onFailure = onFailure
    this.#failing = flags?.failing ?? { raised: false }
    makeDirectory(directory)
    this.#lock = lockJournal(directory)
    // A hit that does not count must leave no half of its line behind.
    const torn = flags?.torn ?? (onFailure === 'unready' ? { raised: false } : undefined)
    this.#tail = new Tail(write ?? (writeSync as Write), (error) => this.#fail(error), torn)
  }

  /** Whether every hit that counts is with the operating system, and the next one can be as well. */
  get isWritable(): boolean {
    const { descriptor, waitingBytes } = this.#tail
    return descriptor !== undefined && waitingBytes === 0 && !this.#failing.raised && !this.#incomplete
  }

  /** Writes and removals that failed in this run. */
  get failures(): number {
    return this.#failures
  }

  /** Bytes that a crash would lose now, because they could not be written yet. */
  get waitingBytes(): number {
    return this.#tail.waitingBytes
  }

  /** Hits that count in memory only, because too many others were waiting. */
  get lostHits(): number {
    return this.#lostHits
  }

  /** What `newId` gives next. */
  get nextId(): number {
    return this.#nextId
  }

  /** An id that stands nowhere in the journal. */
  newId(): number {
    return this.#nextId++
  }

  /**
   * Reads what earlier runs left; to be called once, before anything is written. A hit that claims to be of the future
   * (the clock was set back while nobody counted) is taken as of `nowMs`: the latest that it can have been.
   */
  load(nowMs: number, target: RestoreTarget): void {
    const segments = segmentsIn(this.#directory)
    const rows = newestTable(segments)
    const ids = new Set(rows.map((row) => row.id))
    this.#nextId = Math.max(0, ...ids) + 1
    target.rows(rows)
    const restore = (hit: Hit): boolean => {
      this.#nextId = Math.max(this.#nextId, hit.id + 1)
      if (ids.has(hit.id)) target.hit({ ...hit, atMs: Math.min(hit.atMs, nowMs) })
      return ids.has(hit.id)
    }
    this.#conservativeClock = new ConservativeClock(nowMs)
    for (const segment of segments) {
      const ignored = readHits(segment.file, (hit) => {
        this.#conservativeClock.found(hit.atMs)
        segment.note(hit.id, Math.min(hit.atMs, nowMs))
        return restore(hit)
      })
      if (ignored !== undefined) this.#reports.ignored(ignored)
      // What cannot be read today may be readable tomorrow: it is not removed either.
      if (ignored?.reason === undefined) this.#segments.push(segment)
    }
    const kept: Hit[] = []
    const ignored = readSnapshot(this.#directory, (hit) => {
      kept.push(hit)
      this.#conservativeClock.found(hit.atMs)
      return restore(hit)
    })
    if (ignored !== undefined) this.#reports.ignored(ignored)
    this.#doubted = this.#conservativeClock.doubted(kept, rows, nowMs)
  }

  /** The table in force from now on. What it has no more use for on disk is removed. */
  declare(rows: readonly RowRecord[], nowMs: number): void {
    this.#rows = rows
    if (!this.#rotateWhenDue(nowMs)) this.#tail.put(tableLine(rows), nowMs)
    this.#attempt(() => removeSnapshot(this.#directory))
    this.#discard(nowMs)
  }

  /**
   * One hit under a durable row, let through now: with the operating system when this returns, unless it failed.
   *
   * @returns false when it must not count
   */
  append(hit: Hit): boolean {
    if (this.#rotateWhenDue(hit.atMs)) this.#discard(hit.atMs)
    if (this.#onFailure === 'degraded') this.#put(hitLine(hit), hit.atMs)
    else if (!this.#putNow(hitLine(hit), hit.atMs)) return false
    this.#segments.at(-1)?.note(hit.id, hit.atMs)
    return true
  }

  /**
   * One hit under a durable row that another thread let through: appended unless that thread has done so. Never begins a
   * new segment: the others may be writing to this one.
   */
  adopt(hit: Hit, written: boolean): void {
    const line = hitLine(hit)
    if (written) this.#tail.grew(Buffer.byteLength(line))
    else this.#put(line, hit.atMs)
    this.#segments.at(-1)?.note(hit.id, hit.atMs)
  }

  /**
   * Once a second: begins a new segment if it is time, tries to write what is waiting, and begins anew when files are gone.
   *
   * @param durable every hit that counts under a durable row
   */
  tend(nowMs: number, durable: () => Iterable<Hit>): void {
    if (this.#areFilesGone()) {
      this.#reports.removed?.(this.#directory)
      this.#incomplete = true
    }
    if (this.#incomplete) this.#attempt(() => this.#beginAnew(nowMs, durable()))
    if (this.#rotateWhenDue(nowMs)) this.#discard(nowMs)
    this.#tail.flush(nowMs)
    // A line is tried that says nothing, so that an end of the trouble is noticed without traffic.
    if (this.#failing.raised) this.#putNow('\n', nowMs)
  }

  #areFilesGone(): boolean {
    const { descriptor } = this.#tail
    if (this.#incomplete || descriptor === undefined) return false
    const current = this.#segments.at(-1)
    return (
      this.#lock.isRemoved ||
      (current !== undefined && inodeOf(current.file) !== fstatSync(descriptor).ino) ||
      this.#segments.some(({ file }) => inodeOf(file) === undefined)
    )
  }

  #beginAnew(nowMs: number, durable: Iterable<Hit>): void {
    this.#tail.abandon()
    makeDirectory(this.#directory)
    this.#lock = relockJournal(this.#directory, this.#lock)
    const before = this.#segments.splice(0)
    this.#rotateAtMs = Number.NEGATIVE_INFINITY
    this.#reopenAtMs = Number.NEGATIVE_INFINITY
    if (!this.#rotateWhenDue(nowMs)) {
      this.#segments.push(...before)
      return
    }
    for (const hit of durable) {
      this.#tail.put(hitLine(hit), nowMs)
      this.#segments.at(-1)?.note(hit.id, hit.atMs)
    }
    this.#incomplete = false
    // What is left of the others would count a second time.
    for (const { file } of before) rmSync(file, { force: true })
  }

  /** Of the segment being written; undefined when none could be opened. Good until `tend` or `declare`. */
  get descriptor(): number | undefined {
    return this.#tail.descriptor
  }

  /** The hits that a row brings with it under a new id; to be called before that id is declared. */
  appendAll(id: number, hits: Iterable<Hit>, nowMs: number): void {
    for (const lines of batches(hits)) {
      this.#rotateWhenDue(nowMs)
      this.#put(lines, nowMs)
      this.#segments.at(-1)?.note(id, nowMs)
    }
  }

  /** Writes the snapshot of `hits` and gives up the directory. Nothing may be appended afterwards. */
  close(hits: Iterable<Hit>, nowMs: number): void {
    const doubted = this.#conservativeClock.doubted(this.#doubted, this.#rows, nowMs)
    this.#attempt(() => writeSnapshot(this.#directory, [...doubted, ...hits]))
    this.#tail.flush(nowMs)
    this.#tail.close()
    this.#reopenAtMs = Number.POSITIVE_INFINITY
    this.#lock.release()
  }

  #putNow(lines: string, nowMs: number): boolean {
    const written = this.#tail.putNow(lines, nowMs)
    if (this.#failing.raised === written) this.#failing.raised = !written
    return written
  }

  #put(lines: string, nowMs: number): void {
    if (this.#tail.waitingBytes > MAX_WAITING_BYTES) this.#lostHits += lines.split('\n').length - 1
    else this.#tail.put(lines, nowMs)
  }

  /** Begins a new segment if it is time; returns whether it did. */
  #rotateWhenDue(nowMs: number): boolean {
    const due = nowMs >= this.#rotateAtMs || this.#tail.sizeBytes >= SEGMENT_BYTES
    if (!due || nowMs < this.#reopenAtMs) return false
    const previous = this.#segments.at(-1)
    const startMs = Math.max(Math.floor(nowMs), (previous?.startMs ?? 0) + 1)
    const segment = new Segment(this.#directory, startMs, this.#tail.waitingBytes > 0 ? previous : undefined)
    try {
      makeDirectory(this.#directory)
      this.#tail.swap(openSync(segment.file, 'ax', 0o600), tableLine(this.#rows), nowMs)
    } catch (error) {
      this.#reopenAtMs = nowMs + REOPEN_MS
      this.#fail(error)
      return false
    }
    this.#segments.push(segment)
    this.#rotateAtMs = nowMs + SEGMENT_MS
    return true
  }

  /** Removes the closed segments that no window of the table needs. */
  #discard(nowMs: number): void {
    const windows = new Map(this.#rows.map((row) => [row.id, row.windowMs]))
    const current = this.#segments.at(-1)
    for (const segment of this.#segments.filter(
      (each) => each !== current && !each.isNeeded(windows, this.#conservativeClock.at(nowMs)),
    )) {
      this.#attempt(() => {
        rmSync(segment.file, { force: true })
        this.#segments.splice(this.#segments.indexOf(segment), 1)
      })
    }
  }

  #attempt(action: () => void): void {
    try {
      action()
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#failures++
    this.#reports.failed(error instanceof Error ? error : new Error(String(error)))
  }
}

function inodeOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.ino
}

/** The table that was in force last; empty when none can be read. */
function newestTable(segments: readonly Segment[]): readonly RowRecord[] {
  for (const segment of segments.toReversed()) {
    const rows = lastTable(segment.file)
    if (rows !== undefined) return rows
  }
  return []
}
