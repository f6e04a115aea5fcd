import { closeSync, existsSync, fdatasync, fdatasyncSync, fstatSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { AppendLog, type Write } from '../storage/append-log.ts'
import { makeDirectory, removeFile } from '../storage/line-file.ts'
import { type KeyRecord, keyLines, LINE_MAX_BYTES, openLine, readKeyRecord, statusOf } from './key-record.ts'
import { Reserve } from './key-reserve.ts'
import type { KeySecret, KeySecrets } from './key-secret.ts'
import { createSegment, type Journaled, type OnFound, readSegments, type Segment } from './key-segment.ts'

const SEGMENT_BYTES = 16 * 1024 * 1024
const RETRY_MS = 250
/** Part of a segment that is copied in one turn of the event loop. */
const SLICE = 1 / 64

export interface KeyJournalOptions {
  readonly directory: string
  readonly secrets: KeySecrets
  /** True: a record is durable once the disk has it; false: once the operating system has it. */
  readonly syncs: boolean
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  readonly onFault: (cause: string) => void
  /** Called when others removed the files. They are made again. */
  readonly onRemoved: (cause: string) => void
  readonly write?: Write
  readonly sync?: typeof fdatasync
  readonly segmentBytes?: number
  /** Beyond these bytes of records, only the statuses of responses are kept. */
  readonly maxBytes?: number
}

interface Put {
  readonly id: string
  readonly entry: Journaled
  readonly record: KeyRecord
  /** True at the end of a turn. `process.nextTick` then writes the record: `setImmediate` would come a turn later. */
  readonly isAtTurnEnd?: boolean | undefined
  /** @param isWritten true when the file may have the record in spite of the error */
  readonly run?: (error: Error | undefined, isWritten: boolean) => void
}

const UNWRITTEN = new Error('the record of an idempotency key cannot be written')

/**
 * Records of keys, in segments that only grow. A record is live when it is the last of a kept key. Only the oldest
 * segment is removed, so that no record outlives a later one of its key. When too many records are dead, the live ones
 * of the oldest segment are first copied to the newest.
 */
export class KeyJournal {
  readonly #options: KeyJournalOptions
  readonly #segmentBytes: number
  readonly #log: AppendLog
  #reserve: Reserve | undefined
  /** Oldest first. */
  #segments: Segment[] = []
  #liveBytes = 0
  /** True while `bytes` of the newest segment is right. */
  #isMeasured = false
  #secret: KeySecret
  /** Records of this turn of the event loop, for one write. */
  #puts: Put[] = []
  #waiting: (readonly Pick<Put, 'run'>[])[] = []
  #lastOpened: { readonly file: string; readonly at: number; readonly text: Buffer } | undefined
  #isSyncing = false
  #isRotationDue = false
  /** True after a failure, which only `maintain` retries. */
  #retryRotation = false
  #isCompacting = false
  /** True while another process may have the files. */
  #isSuspended = false

  constructor(options: KeyJournalOptions) {
    this.#options = options
    this.#secret = options.secrets[0]
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
   * Reads all segments; `begin` must follow. The age of a key is measured by the clock of the run that wrote it, so
   * that a wrong wall clock makes no key expire. Time in which nothing was written does not count.
   *
   * @returns milliseconds that the clock of each segment is behind the present clock
   * @throws Error that names the file, because its keys would be forgotten
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
    return shifts
  }

  /** Names of the secrets that seal live records, or will seal the next record. */
  get secretsInUse(): readonly string[] {
    const newest = this.#segments.at(-1)
    return this.#segments.flatMap((segment) =>
      segment.live.size > 0 || segment === newest ? segment.key : [],
    )
  }

  /** Writes under another secret, in a new segment. */
  rekey(secret: KeySecret): void {
    this.flush()
    this.#secret = secret
    this.#isRotationDue = true
    if (!this.#isSyncing && !this.#isSuspended) this.#rotate()
  }

  /** Writes the time: a later process counts ages up to the last record of each file. @returns false on failure */
  markTime(): boolean {
    const secret = this.#secret
    // No request has an empty key.
    const entry: Journaled = { id: secret.idOf('', '', ''), segment: undefined, slot: -1, at: 0, bytes: 0 }
    const said = { caller: secret.callerOf(''), keepMs: 0, fingerprint: '', requestId: '' }
    const atMs = Math.ceil(this.#options.clock())
    return this.#append([{ id: entry.id, entry, record: { state: 'free', atMs, ...said } }])
  }

  /** Writes a record at the end of this turn of the event loop. */
  put(one: Put): void {
    if (this.#puts.push(one) > 1) return
    if (one.isAtTurnEnd === true) process.nextTick(this.#onTurnEnd)
    else setImmediate(this.#onTurnEnd)
  }

  readonly #onTurnEnd = (): void => this.flush()

  /** Writes what waits. On a full disk it writes at least the status of each response. */
  flush(): void {
    const puts = this.#puts
    if (puts.length === 0) return
    this.#puts = []
    const written = this.#append(puts) ? puts : puts.filter((one) => this.#appendShort(one))
    if (written.length === 0) return
    if (this.#options.syncs) this.#sync(written)
    else for (const { run } of written) run?.(undefined, true)
  }

  /** @returns false when none of the records is in the file */
  #append(puts: readonly Put[], nowMs = this.#options.clock()): boolean {
    const segment = this.#segments.at(-1)
    const { seal } = segment ?? {}
    if (segment === undefined || seal === undefined || segment.isDoubtful || this.#isSuspended) return false
    const { text, places } = keyLines(puts, seal)
    // After a failure, the log first writes what waits, or ends a torn line, so the size is unknown.
    this.#isMeasured &&= this.#log.isWritable && !this.#log.isTorn
    if (!this.#log.append(text, nowMs)) {
      this.#isMeasured = false
      return false
    }
    this.#measure(segment, text.length)
    const start = segment.bytes - text.length
    puts.forEach(({ entry, record }, index) => {
      const { at = 0, bytes = 0 } = places[index] ?? {}
      if (record.state === 'free') this.forget(entry)
      else this.keep(entry, { segment, at: start + at, bytes })
    })
    return true
  }

  /** Writes a record into reserved room, with only the status of a response. @returns false on failure, after `run` */
  #appendShort({ entry, record, run }: Put): boolean {
    const { state, response } = record
    const short = {
      id: entry.id,
      entry,
      record: response === undefined ? record : { ...record, response: statusOf(response) },
    }
    const isOwed = state === 'done' || state === 'free'
    // With this time the log tries again at once.
    const nowMs = this.#options.clock() + RETRY_MS
    const isWritten = isOwed && this.#reserve?.give() === true && this.#append([short], nowMs)
    if (!isWritten) run?.(UNWRITTEN, false)
    return isWritten
  }

  /** Updates the size of a segment. After a failed write, which may have left bytes, the file tells the size. */
  #measure(segment: Segment, written: number): void {
    segment.bytes = this.#isMeasured ? segment.bytes + written : fstatSync(segment.fd).size
    this.#isMeasured = true
  }

  /** Keeps room on the disk for short records. @returns false when there is none */
  reserve(records: number): boolean {
    return this.#reserve?.hold(records) === true
  }

  keep(entry: Journaled, { segment, at, bytes }: Omit<Journaled, 'id' | 'slot'>): void {
    if (entry.segment === segment) this.#liveBytes -= entry.bytes
    else {
      this.forget(entry)
      segment?.live.add(entry)
    }
    entry.segment = segment
    entry.at = at
    entry.bytes = bytes
    this.#liveBytes += bytes
  }

  forget(entry: Journaled): void {
    if (entry.segment === undefined) return
    entry.segment.live.remove(entry)
    entry.segment = undefined
    this.#liveBytes -= entry.bytes
  }

  #sync(puts: readonly Pick<Put, 'run'>[]): void {
    this.#waiting.push(puts)
    if (!this.#isSyncing) this.#beginSync()
  }

  #beginSync(): void {
    const group = this.#waiting.splice(0)
    const { sync = fdatasync } = this.#options
    const { descriptor } = this.#log
    const segment = this.#segments.at(-1)
    if (descriptor === undefined || segment === undefined) {
      callBack(group, new Error('the journal is closed'))
      return
    }
    this.#isSyncing = true
    sync(descriptor, (error) => {
      this.#isSyncing = false
      if (error !== null) this.#doubt(segment, error)
      callBack(group, error ?? undefined)
      if (this.#isRotationDue && !this.#isSuspended) this.#rotate()
      if (this.#waiting.length > 0 && !this.#isSyncing) this.#beginSync()
    })
  }

  /** @returns undefined when the record cannot be read, or is damaged */
  read({ id, segment, at }: Journaled): KeyRecord | undefined {
    if (segment === undefined) return undefined
    try {
      const line = bytesIn(segment, at, LINE_MAX_BYTES)
      const record = readKeyRecord(line.subarray(0, line.indexOf('\n')), { id, at }, (from, bytes) =>
        this.#opened(segment, from, bytes),
      )
      if (record === undefined) this.#options.onFault(`${segment.file}: a record is damaged`)
      return record
    } catch (error) {
      this.#options.onFault(`${segment.file}: cannot read: ${String(error)}`)
      return undefined
    }
  }

  /** Opens a sealed line. The last is remembered, because neighbouring records often share a line. */
  #opened(segment: Segment, at: number, bytes: number): Buffer | undefined {
    const { file, seal } = segment
    if (this.#lastOpened?.file !== file || this.#lastOpened.at !== at) {
      const text = seal && openLine(bytesIn(segment, at, bytes), seal)
      this.#lastOpened = text && { file, at, text }
    }
    return this.#lastOpened?.text
  }

  /** Called once a second: retries writes, begins and removes segments. @param again makes a record anew */
  maintain(again: (entry: Journaled) => KeyRecord): void {
    const current = this.#segments.at(-1)
    if (current === undefined) return
    this.flush()
    this.#log.maintain(this.#options.clock())
    this.#isMeasured = false
    this.#measure(current, 0)
    if (!existsSync(current.file)) this.#doubtAll()
    this.#isRotationDue ||= this.#retryRotation || current.bytes >= this.#segmentBytes || current.isDoubtful
    // A sync under way needs the present file.
    if (this.#isRotationDue && !this.#isSyncing) this.#rotate()
    if (this.#isCompacting) return
    this.#isCompacting = true
    this.#compact(again)
  }

  #doubtAll(): void {
    const { directory, onRemoved } = this.#options
    for (const segment of this.#segments) segment.isDoubtful = true
    onRemoved(`${directory} was removed while the gateway was running, and is made again`)
  }

  /** Writes and removes nothing until `resume`. */
  suspend(): void {
    this.flush()
    this.#isSuspended = true
  }

  /** Goes on in a new segment, behind segments that another process may have written. */
  resume(): void {
    this.#isSuspended = false
    const current = this.#segments.at(-1)
    if (current !== undefined) current.isDoubtful = true
    this.#rotate()
  }

  /** Begins a segment, once the present one is as durable as was promised. */
  #rotate(): void {
    this.#isRotationDue = false
    this.#retryRotation = false
    this.markTime()
    const group = this.#waiting.splice(0)
    const error = this.#options.syncs ? this.#syncNow() : undefined
    try {
      this.begin()
    } catch (fault) {
      this.#retryRotation = true
      this.#options.onFault(`${this.#options.directory}: cannot begin a file: ${String(fault)}`)
    }
    callBack(group, error)
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

  /** Marks a segment after a failed sync. The kernel may have dropped bytes, and the next sync would report success. */
  #doubt(segment: Segment | undefined, error: Error): void {
    if (segment !== undefined) segment.isDoubtful = true
    this.#options.onFault(`${this.#options.directory}: cannot sync: ${error.message}`)
  }

  /** Copies the records of doubtful segments, and removes the oldest segment when due, one slice in each turn. */
  #compact(again: (entry: Journaled) => KeyRecord): void {
    const [oldest, next] = this.#segments
    const doubtful = this.#segments.slice(0, -1).find(({ isDoubtful, live }) => isDoubtful && live.size > 0)
    const isDue = oldest !== undefined && next !== undefined && (oldest.live.size === 0 || this.#isWasteful)
    const from = doubtful ?? (isDue ? oldest : undefined)
    if (from === undefined || !this.#copySlice(from, again)) this.#isCompacting = false
    else if (from.live.size > 0 || from !== oldest) setImmediate(() => this.#compact(again))
    else {
      const run = (error: Error | undefined) => {
        const goesOn = error === undefined && !this.#isSuspended && this.#segments[0] === oldest
        this.#isCompacting = goesOn
        if (!goesOn) return
        this.#remove(oldest)
        this.#compact(again)
      }
      this.#sync([{ run }])
    }
  }

  get #isWasteful(): boolean {
    const total = this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
    return total > 2 * this.#liveBytes + 2 * this.#segmentBytes
  }

  /** @returns false when nothing can be written */
  #copySlice({ live }: Segment, again: (entry: Journaled) => KeyRecord): boolean {
    const puts: Put[] = []
    let left = this.#segmentBytes * SLICE
    for (let place = 0; place < live.size && left >= 0; place++) {
      const entry = live.at(place) as Journaled
      left -= entry.bytes
      puts.push({ id: entry.id, entry, record: again(entry) })
    }
    return puts.length === 0 || this.#append(puts)
  }

  #remove(oldest: Segment): void {
    this.#segments.shift()
    closeSync(oldest.fd)
    try {
      removeFile(oldest.file)
    } catch (error) {
      this.#options.onFault(`${oldest.file}: cannot be removed: ${String(error)}`)
    }
  }

  /** @throws Error of the system */
  begin(): void {
    const { directory, write } = this.#options
    makeDirectory(directory)
    this.#reserve?.close()
    this.#reserve = undefined
    this.#reserve = new Reserve(join(directory, 'reserve'), write)
    const { segment, fd, header } = createSegment(this.#options, this.#secret, this.#segments.at(-1))
    this.#log.moveTo(fd, header, this.#options.clock())
    this.#segments.push(segment)
    this.#isMeasured = false
  }

  close(): void {
    this.flush()
    this.#log.close()
    this.#reserve?.close()
    this.#reserve = undefined
    for (const { fd } of this.#segments.splice(0)) closeSync(fd)
  }
}

function callBack(groups: readonly (readonly Pick<Put, 'run'>[])[], error: Error | undefined): void {
  for (const puts of groups) for (const { run } of puts) run?.(error, true)
}

function bytesIn({ fd, bytes }: Segment, at: number, most: number): Buffer {
  const read = Buffer.alloc(Math.min(most, bytes))
  return read.subarray(0, readSync(fd, read, 0, read.length, at))
}
