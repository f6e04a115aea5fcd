import { existsSync, fstatSync, openSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AppendLog, type Write } from '../../storage/append-log.ts'
import { headerLine, makeDirectory, OWNER_ONLY, replaceFile } from '../../storage/line-file.ts'
import { type ProcessLock, takeProcessLock } from '../../storage/process-lock.ts'
import type { RowRecord } from '../table/row-matching.ts'
import {
  batches,
  FORMAT,
  type Hit,
  hitLine,
  type Ignored,
  lastTable,
  readHits,
  tableLine,
} from './journal-records.ts'

/**
 * What to do with a hit of a durable row that cannot be written. `unready`: do not count it, refuse the request.
 * `degraded`: count it in memory and write it later; after a crash more than the limit may be allowed.
 */
export type OnJournalFailure = 'unready' | 'degraded'

/** After a failed write the next attempt waits this long: one attempt can cost milliseconds on a full disk. */
const RETRY_MS = 250

export interface JournalOptions {
  readonly directory: string
  readonly reports: JournalReports
  /** `degraded` when left out. */
  readonly onFailure?: OnJournalFailure
  /** In place of fs.writeSync. */
  readonly write?: Write
}

/** Reports of the journal. None of them stops the gateway. */
export interface JournalReports {
  /** At load: lines, or a file, that could not be used. */
  ignored(what: Ignored): void
  /** Something could not be written or removed. Hits wait in memory and are tried again with the next one. */
  failed(error: Error): void
  /** Files were removed under the gateway; they are made again with every current count. */
  removed?(directory: string): void
}

/** Rows with windows from here on are journalled hit by hit. */
const DURABLE_WINDOW_MS = 3_600_000
/** A segment is closed after an hour, or when it is this large. */
const SEGMENT_MS = 3_600_000
const SEGMENT_BYTES = 16 * 1024 * 1024
/** When a new segment cannot be opened, the old one is used on and the next attempt waits this long. */
const REOPEN_MS = 10_000

/** Receives stored counts: first the rows, then their hits, for each key oldest first. */
interface RestoreTarget {
  rows(records: readonly RowRecord[]): void
  hit(hit: Hit): void
}

/** Whether the hits of a row are journalled one by one: windows of an hour and more. */
export function isDurable(record: RowRecord): boolean {
  return record.windowMs >= DURABLE_WINDOW_MS
}

/**
 * Counts on disk, in a directory of its own. Hits under windows of an hour and more are appended before the take that
 * counted them returns, to files called segments: `hits-<start>.ndjson`. A segment is never rewritten, and is removed when no
 * window needs a hit of it. Hits under shorter windows are in one `snapshot.ndjson`, written by `close`.
 *
 * A wall clock that was wrong for one start erases nothing: a segment is removed only when a window has also passed since the
 * newest hit of earlier runs, while a gateway ran.
 */
export class Journal {
  readonly #directory: string
  readonly #snapshot: string
  readonly #reports: JournalReports
  readonly #log: AppendLog
  readonly #onFailure: OnJournalFailure
  #lock: ProcessLock
  /** Oldest first; the last one is being written. */
  readonly #segments: Segment[] = []
  #rows: readonly RowRecord[] = []
  #nextId = 1
  #rotateAtMs = Number.NEGATIVE_INFINITY
  #reopenAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #conservativeClock = new ConservativeClock(0)
  /** Hits of the snapshot that have expired by the clock of this run, but not by the times in the snapshot. */
  #doubted: Hit[] = []
  /** Files were removed, so that all counts have to be written again. */
  #isIncomplete = false

  /** Makes the directory if missing. @throws Error when it cannot be made or locked, or another gateway has locked it */
  constructor({ directory, reports, onFailure = 'degraded', write }: JournalOptions) {
    this.#directory = directory
    this.#snapshot = join(directory, 'snapshot.ndjson')
    this.#reports = reports
    this.#onFailure = onFailure
    makeDirectory(directory)
    const whenTaken = `${directory} is in use by another gateway: each needs a GATEWAY_DATA_DIR of its own`
    this.#lock = held(directory, takeProcessLock({ path: join(directory, 'lock'), whenTaken }))
    this.#log = new AppendLog({ write, retryMs: RETRY_MS, onFault: (error) => this.#fail(error) })
  }

  /** Whether every hit is written, and the next one can be. */
  get isWritable(): boolean {
    return this.#log.isWritable && !this.#isIncomplete
  }

  get failures(): number {
    return this.#failures
  }

  /** Bytes that a crash would lose now, because they could not be written yet. */
  get waitingBytes(): number {
    return this.#log.waitingBytes
  }

  /** Hits that are in memory only, because too many others were waiting. */
  get lostHits(): number {
    return this.#log.lostLines
  }

  /** An id that occurs nowhere in the journal. */
  newId(): number {
    return this.#nextId++
  }

  /**
   * Reads the counts of earlier runs; to be called once, before anything is written. A hit with a future time (the clock was
   * set back meanwhile) is taken as of `nowMs`, the latest that it can have been.
   *
   * @throws NewerFormatError
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
      // An unreadable file may be readable at the next start, so it is not removed either.
      if (ignored?.reason === undefined) this.#segments.push(segment)
    }
    if (!existsSync(this.#snapshot)) return
    const kept: Hit[] = []
    const ignored = readHits(this.#snapshot, (hit) => {
      kept.push(hit)
      this.#conservativeClock.found(hit.atMs)
      return restore(hit)
    })
    if (ignored !== undefined) this.#reports.ignored(ignored)
    this.#doubted = this.#conservativeClock.doubted(kept, rows, nowMs)
  }

  /** Records the table in force from now on, and removes files that it no longer needs. */
  putTable(rows: readonly RowRecord[], nowMs: number): void {
    this.#rows = rows
    if (!this.#rotateWhenDue(nowMs)) this.#log.put(tableLine(rows), nowMs)
    this.#attempt(() => rmSync(this.#snapshot, { force: true }))
    this.#discard(nowMs)
  }

  /** Stores one hit of a durable row, allowed now. @returns false when it could not be written and must not count */
  append(hit: Hit): boolean {
    if (this.#rotateWhenDue(hit.atMs)) this.#discard(hit.atMs)
    if (this.#onFailure === 'degraded') this.#log.put(hitLine(hit), hit.atMs)
    else if (!this.#log.append(hitLine(hit), hit.atMs)) return false
    this.#segments.at(-1)?.note(hit.id, hit.atMs)
    return true
  }

  /**
   * Once a second: begins a new segment when it is due, retries failed writes, and makes removed files again.
   *
   * @param durable every current hit of durable rows
   */
  maintain(nowMs: number, durable: () => Iterable<Hit>): void {
    this.#attempt(() => this.#lookForFiles())
    if (this.#log.lostLines > 0 && this.#log.waitingBytes === 0) this.#isIncomplete = true
    if (this.#isIncomplete) this.#attempt(() => this.#writeAnew(nowMs, durable()))
    if (this.#rotateWhenDue(nowMs)) this.#discard(nowMs)
    this.#log.maintain(nowMs)
  }

  /** @throws Error of the system when they cannot be looked at: they may be there all the same */
  #lookForFiles(): void {
    const { descriptor } = this.#log
    if (this.#isIncomplete || descriptor === undefined) return
    const inodes = this.#segments.map(({ file }) => statSync(file, { throwIfNoEntry: false })?.ino)
    const isReplaced = inodes.length > 0 && inodes.at(-1) !== fstatSync(descriptor).ino
    if (!this.#lock.isRemoved && !isReplaced && !inodes.includes(undefined)) return
    this.#reports.removed?.(this.#directory)
    this.#isIncomplete = true
  }

  #writeAnew(nowMs: number, durable: Iterable<Hit>): void {
    this.#log.close()
    this.#log.forget()
    makeDirectory(this.#directory)
    this.#lock = held(this.#directory, this.#lock.renewed())
    const before = this.#segments.splice(0)
    this.#rotateAtMs = Number.NEGATIVE_INFINITY
    this.#reopenAtMs = Number.NEGATIVE_INFINITY
    if (!this.#rotateWhenDue(nowMs)) {
      this.#segments.push(...before)
      return
    }
    for (const hit of durable) {
      this.#log.put(hitLine(hit), nowMs)
      this.#segments.at(-1)?.note(hit.id, hit.atMs)
    }
    this.#isIncomplete = false
    // Their hits would count twice.
    for (const { file } of before) rmSync(file, { force: true })
  }

  /** Stores the hits of a row that got a new id; to be called before that id is declared. */
  appendAll(id: number, hits: Iterable<Hit>, nowMs: number): void {
    for (const lines of batches(hits)) {
      this.#rotateWhenDue(nowMs)
      this.#log.put(lines, nowMs)
      this.#segments.at(-1)?.note(id, nowMs)
    }
  }

  /** Writes the snapshot of `hits` and releases the directory. Nothing may be appended afterwards. */
  close(hits: Iterable<Hit>, nowMs: number): void {
    const doubted = this.#conservativeClock.doubted(this.#doubted, this.#rows, nowMs)
    this.#attempt(() => replaceFile(this.#snapshot, snapshotOf([...doubted, ...hits])))
    this.#log.flush(nowMs)
    this.#log.close()
    this.#reopenAtMs = Number.POSITIVE_INFINITY
    this.#lock.release()
  }

  /** Goes on after `close`; `putTable` follows. @throws Error when another process has the directory */
  reopen(): void {
    this.#lock = held(this.#directory, this.#lock.renewed())
    this.#reopenAtMs = Number.NEGATIVE_INFINITY
    this.#rotateAtMs = Number.NEGATIVE_INFINITY
  }

  /** @returns whether a new segment was due and could be opened */
  #rotateWhenDue(nowMs: number): boolean {
    const due = nowMs >= this.#rotateAtMs || this.#log.sizeBytes >= SEGMENT_BYTES
    if (!due || nowMs < this.#reopenAtMs) return false
    const previous = this.#segments.at(-1)
    const startMs = Math.max(Math.floor(nowMs), (previous?.startMs ?? 0) + 1)
    const segment = new Segment(this.#directory, startMs, this.#log.waitingBytes > 0 ? previous : undefined)
    try {
      makeDirectory(this.#directory)
      const descriptor = openSync(segment.file, 'ax', OWNER_ONLY)
      this.#log.moveTo(descriptor, headerLine(FORMAT) + tableLine(this.#rows), nowMs)
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
    const nowAtMost = this.#conservativeClock.at(nowMs)
    const old = this.#segments.filter((each) => each !== current && !each.isNeeded(windows, nowAtMost))
    for (const segment of old) {
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

/** Without a lock two gateways would remove each other's hits. @throws Error when it is not held */
function held(directory: string, lock: ProcessLock): ProcessLock {
  if (lock.held) return lock
  throw new Error(`${directory} cannot be locked: ${lock.fault?.message}`, { cause: lock.fault })
}

function* snapshotOf(hits: Iterable<Hit>): Iterable<string> {
  yield headerLine(FORMAT)
  yield* batches(hits)
}

/** The table that was in force last; empty when none can be read. */
function newestTable(segments: readonly Segment[]): readonly RowRecord[] {
  for (const segment of segments.toReversed()) {
    const rows = lastTable(segment.file)
    if (rows !== undefined) return rows
  }
  return []
}

/**
 * Bounds the current time by the newest hit of earlier runs plus the time since the start, so that a wall clock that is
 * ahead does not cause anything to be deleted.
 */
class ConservativeClock {
  readonly #startMs: number
  /** Time of the newest hit that was found. */
  #foundMs = Number.NEGATIVE_INFINITY

  constructor(startMs: number) {
    this.#startMs = startMs
  }

  /** A hit of an earlier run. */
  found(atMs: number): void {
    if (atMs > this.#foundMs) this.#foundMs = atMs
  }

  /** Never later than `nowMs`. */
  at(nowMs: number): number {
    if (this.#foundMs === Number.NEGATIVE_INFINITY) return nowMs
    return Math.min(nowMs, this.#foundMs + (nowMs - this.#startMs))
  }

  /** The hits that have expired at `nowMs`, but perhaps only because the clock is ahead. */
  doubted(hits: readonly Hit[], rows: readonly RowRecord[], nowMs: number): Hit[] {
    const windows = new Map(rows.map((row) => [row.id, row.windowMs]))
    return hits.filter(({ id, atMs }) => {
      const windowMs = windows.get(id) ?? 0
      return nowMs - atMs >= windowMs && this.at(nowMs) - atMs < windowMs
    })
  }
}

/** One append-only file of the journal, and what is known of it without reading it again. */
class Segment {
  readonly file: string
  readonly startMs: number
  /** Time of the newest hit of each row's counters, by their id. */
  readonly #newestMs: Map<number, number>

  /** `from` is a segment whose last hits may end up in this one. */
  constructor(directory: string, startMs: number, from?: Segment) {
    this.file = join(directory, `hits-${startMs}.ndjson`)
    this.startMs = startMs
    this.#newestMs = new Map(from === undefined ? [] : from.#newestMs)
  }

  /** The segment holds, or is about to hold, a hit of these counters. */
  note(id: number, atMs: number): void {
    const newestMs = this.#newestMs.get(id)
    if (newestMs === undefined || newestMs < atMs) this.#newestMs.set(id, atMs)
  }

  /** Whether any window may still count a hit of it; `windows` are the windows by id, in milliseconds. */
  isNeeded(windows: ReadonlyMap<number, number>, nowMs: number): boolean {
    for (const [id, newestMs] of this.#newestMs) {
      const windowMs = windows.get(id)
      if (windowMs !== undefined && nowMs - newestMs < windowMs) return true
    }
    return false
  }
}

/** The segments in a directory, oldest first. Throws when it cannot be read. */
function segmentsIn(directory: string): Segment[] {
  const starts = readdirSync(directory).flatMap((name) => {
    const start = /^hits-(\d{1,15})\.ndjson$/.exec(name)?.[1]
    return start === undefined ? [] : [Number(start)]
  })
  return starts.sort((a, b) => a - b).map((startMs) => new Segment(directory, startMs))
}
