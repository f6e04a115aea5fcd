import { existsSync, fstatSync, openSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AppendLog, type Write } from '../../storage/append-log.ts'
import { headerLine, makeDirectory, OWNER_ONLY, removeFile, replaceFile } from '../../storage/line-file.ts'
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
 * What happens when a hit of a durable row cannot be written. `unready`: its request is refused. `degraded`: it counts
 * in memory and is written later; a crash may let more than the limit through.
 */
export type OnJournalFailure = 'unready' | 'degraded'

/** One attempt can cost milliseconds on a full disk. */
const RETRY_MS = 250

export interface JournalOptions {
  readonly directory: string
  readonly reports: JournalReports
  readonly onFailure?: OnJournalFailure
  readonly write?: Write
}

export interface JournalReports {
  ignored(what: Ignored): void
  /** Called when something could not be written or removed. Hits wait in memory. */
  failed(error: Error): void
  /** Called when others removed files, which are made again with all counts. */
  removed?(directory: string): void
}

/** Windows from this length on are durable: each hit is journalled. */
const DURABLE_WINDOW_MS = 3_600_000
const SEGMENT_MS = 3_600_000
const SEGMENT_BYTES = 16 * 1024 * 1024
const REOPEN_MS = 10_000

export function isDurable(record: RowRecord): boolean {
  return record.windowMs >= DURABLE_WINDOW_MS
}

/**
 * Counts on disk, in a directory of its own. A hit of a durable window is appended to a segment, `hits-<start>.ndjson`,
 * before its take returns. A segment is removed when, by `ConservativeClock`, no window needs its hits. Hits of shorter
 * windows are in `snapshot.ndjson`, which `close` writes.
 */
export class Journal {
  readonly #directory: string
  readonly #snapshot: string
  readonly #reports: JournalReports
  readonly #log: AppendLog
  readonly #onFailure: OnJournalFailure
  #lock: ProcessLock
  readonly #segments: Segment[] = []
  #rows: readonly RowRecord[] = []
  #nextId = 1
  #rotateAtMs = Number.NEGATIVE_INFINITY
  #reopenAtMs = Number.NEGATIVE_INFINITY
  #conservativeClock = new ConservativeClock(0)
  /** Hits of the snapshot that have expired only by the clock of this run. */
  #doubted: Hit[] = []
  #isIncomplete = false

  /** @throws Error when the directory cannot be made or locked, or another gateway has locked it */
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

  get isWritable(): boolean {
    return this.#log.isWritable && !this.#isIncomplete
  }

  newId(): number {
    return this.#nextId++
  }

  /**
   * Reads the rows of earlier runs, then the hits, those of a key oldest first. A hit from the future gets `nowMs`.
   * @throws NewerFormatError
   */
  load(nowMs: number, target: { rows(records: readonly RowRecord[]): void; hit(hit: Hit): void }): void {
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
      // An unreadable file is kept: the next start may read it.
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

  /** Records the table in force and removes files that it does not need. */
  putTable(rows: readonly RowRecord[], nowMs: number): void {
    this.#rows = rows
    if (!this.#rotateWhenDue(nowMs)) this.#log.put(tableLine(rows), nowMs)
    this.#attempt(() => removeFile(this.#snapshot))
    this.#discard(nowMs)
  }

  /** Stores hits of durable rows. @returns false when they could not be written, and must not count */
  append(hit: Hit): boolean {
    if (this.#rotateWhenDue(hit.atMs)) this.#discard(hit.atMs)
    if (this.#onFailure === 'degraded') this.#log.put(hitLine(hit), hit.atMs)
    else if (!this.#log.append(hitLine(hit), hit.atMs)) return false
    for (let one: Hit | undefined = hit; one !== undefined; one = one.next)
      this.#segments.at(-1)?.note(one.id, one.atMs)
    return true
  }

  /** Called once a second: begins a due segment, retries writes, makes removed files again. */
  maintain(nowMs: number, durable: () => Iterable<Hit>): void {
    this.#attempt(() => this.#lookForFiles())
    if (this.#log.lostLines > 0 && this.#log.waitingBytes === 0) this.#isIncomplete = true
    if (this.#isIncomplete) this.#attempt(() => this.#writeAnew(nowMs, durable()))
    if (this.#rotateWhenDue(nowMs)) this.#discard(nowMs)
    this.#log.maintain(nowMs)
  }

  /** @throws Error when it cannot be told whether the files are there */
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
    // Old segments must go, or their hits would count twice.
    for (const { file } of before) removeFile(file)
  }

  /** Stores hits under a new id, before `putTable` declares it. */
  appendAll(id: number, hits: Iterable<Hit>, nowMs: number): void {
    for (const lines of batches(hits)) {
      this.#rotateWhenDue(nowMs)
      this.#log.put(lines, nowMs)
      this.#segments.at(-1)?.note(id, nowMs)
    }
  }

  /** Writes the snapshot and releases the directory. Only `reopen` may follow. @returns false when the disk lacks hits */
  close(hits: Iterable<Hit>, nowMs: number): boolean {
    const doubted = this.#conservativeClock.doubted(this.#doubted, this.#rows, nowMs)
    const hasSnapshot = this.#attempt(() => replaceFile(this.#snapshot, snapshotOf([...doubted, ...hits])))
    this.#log.flush(nowMs)
    this.#log.close()
    this.#reopenAtMs = Number.POSITIVE_INFINITY
    this.#lock.release()
    return hasSnapshot && this.#log.waitingBytes === 0
  }

  /** `putTable` must follow. @throws Error when another process has the directory */
  reopen(): void {
    this.#lock = held(this.#directory, this.#lock.renewed())
    this.#reopenAtMs = Number.NEGATIVE_INFINITY
    this.#rotateAtMs = Number.NEGATIVE_INFINITY
  }

  /** @returns false when no segment was due, or it could not be opened */
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

  #discard(nowMs: number): void {
    const windows = new Map(this.#rows.map((row) => [row.id, row.windowMs]))
    const current = this.#segments.at(-1)
    const nowAtMost = this.#conservativeClock.at(nowMs)
    const old = this.#segments.filter((each) => each !== current && !each.isNeeded(windows, nowAtMost))
    for (const segment of old) {
      this.#attempt(() => {
        removeFile(segment.file)
        this.#segments.splice(this.#segments.indexOf(segment), 1)
      })
    }
  }

  #attempt(action: () => void): boolean {
    try {
      action()
      return true
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  #fail(error: unknown): void {
    this.#reports.failed(error instanceof Error ? error : new Error(String(error)))
  }
}

/** Without the lock two gateways would remove each other's hits. */
function held(directory: string, lock: ProcessLock): ProcessLock {
  if (lock.held) return lock
  throw new Error(`${directory} cannot be locked: ${lock.fault?.message}`, { cause: lock.fault })
}

function* snapshotOf(hits: Iterable<Hit>): Iterable<string> {
  yield headerLine(FORMAT)
  yield* batches(hits)
}

function newestTable(segments: readonly Segment[]): readonly RowRecord[] {
  for (const segment of segments.toReversed()) {
    const rows = lastTable(segment.file)
    if (rows !== undefined) return rows
  }
  return []
}

/** Bounds the time by the newest earlier hit plus the time since the start, so a fast wall clock deletes nothing. */
class ConservativeClock {
  readonly #startMs: number
  #foundMs = Number.NEGATIVE_INFINITY

  constructor(startMs: number) {
    this.#startMs = startMs
  }

  found(atMs: number): void {
    if (atMs > this.#foundMs) this.#foundMs = atMs
  }

  at(nowMs: number): number {
    if (this.#foundMs === Number.NEGATIVE_INFINITY) return nowMs
    return Math.min(nowMs, this.#foundMs + (nowMs - this.#startMs))
  }

  /** Hits that have expired, but perhaps only because the clock is ahead. */
  doubted(hits: readonly Hit[], rows: readonly RowRecord[], nowMs: number): Hit[] {
    const windows = new Map(rows.map((row) => [row.id, row.windowMs]))
    return hits.filter(({ id, atMs }) => {
      const windowMs = windows.get(id) ?? 0
      return nowMs - atMs >= windowMs && this.at(nowMs) - atMs < windowMs
    })
  }
}

class Segment {
  readonly file: string
  readonly startMs: number
  /** Newest hit by the id of the row. */
  readonly #newestMs: Map<number, number>

  /** @param from the segment whose waiting hits may come into this one */
  constructor(directory: string, startMs: number, from?: Segment) {
    this.file = join(directory, `hits-${startMs}.ndjson`)
    this.startMs = startMs
    this.#newestMs = new Map(from === undefined ? [] : from.#newestMs)
  }

  /** Call it for each hit that the segment holds or will hold. */
  note(id: number, atMs: number): void {
    const newestMs = this.#newestMs.get(id)
    if (newestMs === undefined || newestMs < atMs) this.#newestMs.set(id, atMs)
  }

  /** @param windows milliseconds by id */
  isNeeded(windows: ReadonlyMap<number, number>, nowMs: number): boolean {
    for (const [id, newestMs] of this.#newestMs) {
      const windowMs = windows.get(id)
      if (windowMs !== undefined && nowMs - newestMs < windowMs) return true
    }
    return false
  }
}

/** Oldest first. */
function segmentsIn(directory: string): Segment[] {
  const starts = readdirSync(directory).flatMap((name) => /^hits-(\d{1,15})\.ndjson$/.exec(name)?.[1] ?? [])
  return starts
    .map(Number)
    .sort((a, b) => a - b)
    .map((startMs) => new Segment(directory, startMs))
}
