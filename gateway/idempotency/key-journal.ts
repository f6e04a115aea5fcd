import { closeSync, existsSync, fdatasync, fdatasyncSync, fstatSync, readSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AppendLog, type Write } from '../storage/append-log.ts'
import { makeDirectory } from '../storage/line-file.ts'
import { type KeyRecord, keyLine, readKeyLine } from './key-record.ts'
import { Reserve } from './key-reserve.ts'
import type { KeySecret } from './key-secret.ts'
import { createSegment, type Journaled, type OnFound, readSegments, type Segment } from './key-segment.ts'

const SEGMENT_BYTES = 16 * 1024 * 1024
const RETRY_MS = 250
/** A part of a segment, 256 KiB, is copied in one turn of the event loop. */
const SLICE = 1 / 64

export interface KeyJournalOptions {
  readonly directory: string
  readonly secret: KeySecret
  /** `synced` waits for the disk, otherwise a record is durable once the operating system has it. */
  readonly syncs: boolean
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  readonly onFault: (cause: string) => void
  /** The files were removed under the gateway, and are made again. */
  readonly onRemoved: (cause: string) => void
  readonly write?: Write
  readonly sync?: typeof fdatasync
  readonly segmentBytes?: number
  /** The bytes of records beyond which responses are not kept. */
  readonly maxBytes?: number
}

type OnDurable = (error: Error | undefined) => void

/**
 * The records of keys, in segments that only grow. The oldest segment is removed when nothing in it is live; where too much is
 * dead, its live records are copied to the newest one first. As only the oldest goes, a record never outlives a later one of its key.
 */
export class KeyJournal {
  readonly #options: KeyJournalOptions
  readonly #segmentBytes: number
  readonly #log: AppendLog
  #reserve: Reserve | undefined
  /** Oldest first; the last is written. */
  #segments: Segment[] = []
  #liveBytes = 0
  /** `bytes` of the newest is right. */
  #isMeasured = false
  #waiting: OnDurable[] = []
  #isSyncing = false
  #isRotationDue = false
  #isCompacting = false
  /** Another process may have the files. */
  #isSuspended = false

  constructor(options: KeyJournalOptions) {
    this.#options = options
    this.#segmentBytes = options.segmentBytes ?? SEGMENT_BYTES
    this.#log = new AppendLog({
      onFault: (error) => options.onFault(`${options.directory}: cannot append: ${String(error)}`),
      retryMs: RETRY_MS,
      write: options.write,
    })
  }

  get isWritable(): boolean {
    return this.#log.isWritable && this.#segments.at(-1)?.isDoubtful === false
  }

  get liveBytes(): number {
    return this.#liveBytes
  }

  /**
   * Reads all segments, oldest first, and begins a new one. Ages are measured by the clocks of the runs that wrote them, so that a
   * wrong wall clock makes no key expire; the time when nothing was written does not count.
   *
   * @returns for each segment how much its times are behind the present clock
   * @throws Error that names the file, because keys would be forgotten without it
   */
  load(found: OnFound): ReadonlyMap<unknown, number> {
    const segments = readSegments(this.#options, found)
    this.#segments = segments.map(({ segment }) => segment)
    const shifts = new Map<unknown, number>()
    let endMs = this.#options.clock()
    for (const { segment, firstMs, lastMs } of segments.reverse()) {
      shifts.set(segment, endMs - lastMs)
      endMs -= lastMs - firstMs
    }
    this.#begin()
    return shifts
  }

  /** Writes the last record of a key. @returns false when it is not in the file */
  append(entry: Journaled, record: KeyRecord, nowMs = this.#options.clock()): boolean {
    const segment = this.#segments.at(-1)
    if (segment === undefined || segment.isDoubtful || this.#isSuspended) return false
    const line = keyLine(entry.id, record, segment.seal)
    if (!this.#log.append(line, nowMs)) {
      this.#isMeasured = false
      return false
    }
    this.#measure(segment, line.length)
    this.forget(entry)
    if (record.state === 'free') return true
    this.keep(entry, { segment, at: segment.bytes - line.length, bytes: line.length })
    return true
  }

  /** A failed write may leave bytes in the file. */
  #measure(segment: Segment, written: number): void {
    segment.bytes = this.#isMeasured ? segment.bytes + written : fstatSync(segment.fd).size
    this.#isMeasured = true
  }

  /** Keeps room on the disk for so many calls of `appendShort`. @returns false when there is none */
  reserve(records: number): boolean {
    return this.#reserve?.hold(records) === true
  }

  /** Writes a record of at most 4 KiB that a full disk has not taken, into reserved room. @returns as `append` */
  appendShort(entry: Journaled, record: KeyRecord): boolean {
    // It does not wait for the time of the next try.
    return this.#reserve?.give() === true && this.append(entry, record, this.#options.clock() + RETRY_MS)
  }

  keep(entry: Journaled, { segment, at, bytes }: Omit<Journaled, 'id'>): void {
    Object.assign(entry, { segment, at, bytes })
    segment?.live.add(entry)
    this.#liveBytes += bytes
  }

  /** Nothing needs the last record of the key any more. */
  forget(entry: Journaled): void {
    if (entry.segment?.live.delete(entry) === true) this.#liveBytes -= entry.bytes
    entry.segment = undefined
  }

  /** Calls back when all that was appended is durable; at once unless `syncs`. */
  whenDurable(run: OnDurable): void {
    if (this.#options.syncs) this.#sync(run)
    else run(undefined)
  }

  #sync(run: OnDurable): void {
    this.#waiting.push(run)
    if (!this.#isSyncing) this.#beginSync()
  }

  #beginSync(): void {
    const group = this.#waiting.splice(0)
    const { sync = fdatasync } = this.#options
    const { descriptor } = this.#log
    const segment = this.#segments.at(-1)
    if (descriptor === undefined || segment === undefined) {
      for (const run of group) run(new Error('the journal is closed'))
      return
    }
    this.#isSyncing = true
    sync(descriptor, (error) => {
      this.#isSyncing = false
      if (error !== null) this.#doubt(segment, error)
      for (const run of group) run(error ?? undefined)
      if (this.#isRotationDue) this.#rotate()
      if (this.#waiting.length > 0 && !this.#isSyncing) this.#beginSync()
    })
  }

  /** Undefined when it cannot be read, or is damaged. */
  read({ id, segment, at, bytes }: Journaled): KeyRecord | undefined {
    if (segment === undefined) return undefined
    const line = Buffer.alloc(bytes)
    try {
      readSync(segment.fd, line, 0, bytes, at)
    } catch (error) {
      this.#options.onFault(`${segment.file}: cannot read: ${String(error)}`)
      return undefined
    }
    const record = readKeyLine(line.subarray(0, -1), id, segment.seal)
    if (record === undefined) this.#options.onFault(`${segment.file}: a record is damaged`)
    return record
  }

  /** To be called once a second: retries writes, begins and removes segments. @param again the record of a key in the present clock */
  maintain(again: (entry: Journaled) => KeyRecord): void {
    const current = this.#segments.at(-1)
    if (current === undefined) return
    this.#log.maintain(this.#options.clock())
    this.#isMeasured = false
    this.#measure(current, 0)
    if (!existsSync(current.file)) this.#doubtAll()
    this.#isRotationDue = current.bytes >= this.#segmentBytes || current.isDoubtful
    // A sync works on the open file.
    if (this.#isRotationDue && !this.#isSyncing) this.#rotate()
    if (this.#isCompacting) return
    this.#isCompacting = true
    this.#compact(again)
  }

  #doubtAll(): void {
    const { directory, onRemoved } = this.#options
    for (const segment of this.#segments) segment.isDoubtful = true
    onRemoved(`${directory}: removed under the gateway, and begun anew`)
  }

  /** Writes and removes nothing until `resume`. */
  suspend(): void {
    this.#isSuspended = true
  }

  /** Goes on after another process may have written segments, in one behind them. */
  resume(): void {
    this.#isSuspended = false
    const current = this.#segments.at(-1)
    if (current !== undefined) current.isDoubtful = true
    this.#rotate()
  }

  /** Begins a segment when all of the present one is as durable as it was promised to be. */
  #rotate(): void {
    this.#isRotationDue = false
    const group = this.#waiting.splice(0)
    const error = this.#options.syncs ? this.#syncNow() : undefined
    try {
      this.#begin()
    } catch (fault) {
      this.#options.onFault(`${this.#options.directory}: cannot begin a file: ${String(fault)}`)
    }
    for (const run of group) run(error)
  }

  #syncNow(): Error | undefined {
    const current = this.#segments.at(-1)
    try {
      if (current?.isDoubtful === true) return new Error('an earlier sync has failed')
      fdatasyncSync(this.#log.descriptor as number)
      return undefined
    } catch (error) {
      this.#doubt(current, error as Error)
      return error as Error
    }
  }

  /** The kernel may have dropped what it could not write, and the next sync would report success. */
  #doubt(segment: Segment | undefined, error: Error): void {
    if (segment !== undefined) segment.isDoubtful = true
    this.#options.onFault(`${this.#options.directory}: cannot sync: ${error.message}`)
  }

  /** Copies the records of doubtful segments, and removes the oldest one when it is due: a slice in each turn. */
  #compact(again: (entry: Journaled) => KeyRecord): void {
    const [oldest, next] = this.#segments
    const doubtful = this.#segments.slice(0, -1).find(({ isDoubtful, live }) => isDoubtful && live.size > 0)
    const isDue = oldest !== undefined && next !== undefined && (oldest.live.size === 0 || this.#isWasteful)
    const from = doubtful ?? (isDue ? oldest : undefined)
    if (from === undefined || !this.#copySlice(from, again)) this.#isCompacting = false
    else if (from.live.size > 0 || from !== oldest) setImmediate(() => this.#compact(again))
    else
      this.#sync((error) => {
        const goesOn = error === undefined && !this.#isSuspended && this.#segments[0] === oldest
        this.#isCompacting = goesOn
        if (!goesOn) return
        this.#remove(oldest)
        this.#compact(again)
      })
  }

  get #isWasteful(): boolean {
    const total = this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
    return total > 2 * this.#liveBytes + 2 * this.#segmentBytes
  }

  /** @returns false when nothing can be written */
  #copySlice({ live }: Segment, again: (entry: Journaled) => KeyRecord): boolean {
    let left = this.#segmentBytes * SLICE
    for (const entry of live) {
      if (left < 0) break
      left -= entry.bytes
      if (!this.append(entry, again(entry))) return false
    }
    return true
  }

  #remove(oldest: Segment): void {
    this.#segments.shift()
    closeSync(oldest.fd)
    try {
      rmSync(oldest.file, { force: true })
    } catch (error) {
      this.#options.onFault(`${oldest.file}: cannot be removed: ${String(error)}`)
    }
  }

  /** @throws Error of the system */
  #begin(): void {
    const { directory, write } = this.#options
    makeDirectory(directory)
    this.#reserve?.close()
    this.#reserve = undefined
    this.#reserve = new Reserve(join(directory, 'reserve'), write)
    const { segment, fd, header } = createSegment(this.#options, this.#segments.at(-1))
    this.#log.moveTo(fd, header, this.#options.clock())
    this.#segments.push(segment)
    this.#isMeasured = false
  }

  /** Gives the files up. */
  close(): void {
    this.#log.close()
    this.#reserve?.close()
    this.#reserve = undefined
    for (const { fd } of this.#segments.splice(0)) closeSync(fd)
  }
}
