import { mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import type { Keeping, Restoring } from './keeping.ts'
import type { RowRecord } from './lineage.ts'
import { lockDirectory } from './lock.ts'
import { batches, type Hit, hitLine, type Ignored, lastTable, readHits, tableLine } from './records.ts'
import { Segment, segmentsIn } from './segments.ts'
import { readSnapshot, removeSnapshot, writeSnapshot } from './snapshot.ts'
import { Tail, type Write } from './tail.ts'

/** Rows with windows from here on are journalled hit by hit. */
const DURABLE_WINDOW_MS = 3_600_000
/** A segment is closed after an hour, or when it is this large. */
const SEGMENT_MS = 3_600_000
const SEGMENT_BYTES = 16 * 1024 * 1024
/** When a new segment cannot be opened, the old one is written on and the next attempt waits this long. */
const REOPEN_MS = 10_000
/** Hits that may wait in memory while the disk takes nothing: some 100,000. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024

/** Whom the journal tells. Neither is a reason to stop. */
export interface JournalReports {
  /** At load: lines, or a file, that could not be used. */
  ignored(what: Ignored): void
  /** Something could not be written or removed. Hits wait in memory and are tried again with the next one. */
  failed(error: Error): void
}

/** Whether the hits of a row are journalled one by one: windows of an hour and more. */
export function isDurable(record: RowRecord): boolean {
  return record.windowMs >= DURABLE_WINDOW_MS
}

/**
 * Counts on disk, in a directory of its own. Hits under windows of an hour and more are appended before the take that
 * counted them returns, to segments that are never rewritten: a segment is removed when no window needs a hit of it.
 * Hits under shorter windows are in one snapshot, written by `close`. A disk that takes nothing stops nobody: hits
 * still count, and wait in memory.
 */
export class Journal implements Keeping {
  readonly #directory: string
  readonly #reports: JournalReports
  readonly #tail: Tail
  readonly #unlock: () => void
  /** Oldest first; the last one is being written. */
  readonly #segments: Segment[] = []
  #rows: readonly RowRecord[] = []
  #nextId = 1
  #rotateAtMs = Number.NEGATIVE_INFINITY
  #reopenAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #lostHits = 0

  /**
   * Makes the directory when it is not there. Throws when it cannot be made, or when another gateway holds it.
   * `write` takes the place of fs.writeSync; `torn` is a flag of all threads that write to its segments.
   */
  constructor(options: {
    directory: string
    reports: JournalReports
    write?: Write
    torn?: { raised: boolean } | undefined
  }) {
    this.#directory = options.directory
    this.#reports = options.reports
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    this.#unlock = lockDirectory(this.#directory)
    this.#tail = new Tail(options.write ?? (writeSync as Write), (error) => this.#fail(error), options.torn)
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
  load(nowMs: number, restoring: Restoring): void {
    const segments = segmentsIn(this.#directory)
    const rows = newestTable(segments)
    const ids = new Set(rows.map((row) => row.id))
    this.#nextId = Math.max(0, ...ids) + 1
    restoring.rows(rows)
    const restore = (hit: Hit): boolean => {
      this.#nextId = Math.max(this.#nextId, hit.id + 1)
      if (ids.has(hit.id)) restoring.hit({ ...hit, atMs: Math.min(hit.atMs, nowMs) })
      return ids.has(hit.id)
    }
    for (const segment of segments) {
      const ignored = readHits(segment.file, (hit) => {
        segment.note(hit.id, Math.min(hit.atMs, nowMs))
        return restore(hit)
      })
      if (ignored !== undefined) this.#reports.ignored(ignored)
      // What cannot be read today may be readable tomorrow: it is not removed either.
      if (ignored?.reason === undefined) this.#segments.push(segment)
    }
    const ignored = readSnapshot(this.#directory, restore)
    if (ignored !== undefined) this.#reports.ignored(ignored)
  }

  /** The table in force from now on. What it has no more use for on disk is removed. */
  declare(rows: readonly RowRecord[], nowMs: number): void {
    this.#rows = rows
    if (!this.#rotateWhenDue(nowMs)) this.#tail.put(tableLine(rows), nowMs)
    this.#attempt(() => removeSnapshot(this.#directory))
    this.#discard(nowMs)
  }

  /** One hit under a durable row, let through now: with the operating system when this returns, unless it failed. */
  append(hit: Hit): void {
    if (this.#rotateWhenDue(hit.atMs)) this.#discard(hit.atMs)
    this.#put(hitLine(hit), hit.atMs)
    this.#segments.at(-1)?.note(hit.id, hit.atMs)
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

  /** Begins a new segment if it is time, and tries to write what is waiting. For when nobody else writes. */
  tend(nowMs: number): void {
    if (this.#rotateWhenDue(nowMs)) this.#discard(nowMs)
    this.#tail.flush(nowMs)
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
    this.#attempt(() => writeSnapshot(this.#directory, hits))
    this.#tail.flush(nowMs)
    this.#tail.close()
    this.#reopenAtMs = Number.POSITIVE_INFINITY
    this.#unlock()
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
      mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
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
      (each) => each !== current && !each.isNeeded(windows, nowMs),
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

/** The table that was in force last; empty when none can be read. */
function newestTable(segments: readonly Segment[]): readonly RowRecord[] {
  for (const segment of segments.toReversed()) {
    const rows = lastTable(segment.file)
    if (rows !== undefined) return rows
  }
  return []
}
