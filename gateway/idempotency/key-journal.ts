import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fdatasync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { AppendLog, type Write } from '../storage/append-log.ts'
import { makeDirectory, NewerFormatError, OWNER_ONLY, syncDirectory } from '../storage/line-file.ts'
import { type KeyRecord, keyLine, readKeyLine } from './key-record.ts'
import { type KeySecret, type RecordSeal, SALT_BYTES } from './key-secret.ts'

const FORMAT = 'idempotency-keys'
const VERSION = 1
const SEGMENT = /^keys-([0-9]{10})\.log$/
const SEGMENT_BYTES = 16 * 1024 * 1024
const RETRY_MS = 250
/** Copied in one turn of the event loop. */
const SLICE_BYTES = 256 * 1024

/** Where the last record of a key is. */
export interface Journaled {
  readonly id: string
  segment: Segment | undefined
  at: number
  bytes: number
}

interface Segment {
  readonly file: string
  /** For reading. */
  readonly fd: number
  readonly seal: RecordSeal
  readonly live: Set<Journaled>
  bytes: number
}

/** A segment as it was found, with its first and last time on the clock of its run. */
interface FoundSegment {
  readonly segment: Segment
  readonly firstMs: number
  lastMs: number
}

export interface KeyJournalOptions {
  readonly directory: string
  readonly secret: KeySecret
  /** `synced` waits for the disk, otherwise a record is durable once the operating system has it. */
  readonly syncs: boolean
  /** Epoch milliseconds, monotonic during a run. */
  readonly clock: () => number
  readonly onFault: (cause: string) => void
  readonly write?: Write
  readonly segmentBytes?: number
}

/** One record of an earlier run. @param record undefined: damaged, so that nothing but its key is known */
export type OnFound = (id: string, record: KeyRecord | undefined, place: Omit<Journaled, 'id'>) => void
type OnDurable = (error: Error | undefined) => void

/**
 * The records of keys, in segments that only grow. The oldest segment is removed when nothing in it is live; where too much is
 * dead, its live records are copied to the newest one first. As only the oldest goes, a record never outlives a later one of its key.
 */
export class KeyJournal {
  readonly #options: KeyJournalOptions
  readonly #segmentBytes: number
  readonly #log: AppendLog
  /** Oldest first; the last is written. */
  #segments: Segment[] = []
  #liveBytes = 0
  #waiting: OnDurable[] = []
  #isSyncing = false
  #isCompacting = false
  /** A sync failed: what the kernel dropped is written again, into another segment. */
  #isDoubtful = false

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
    return this.#log.isWritable && !this.#isDoubtful
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
    const { directory, clock } = this.#options
    makeDirectory(directory)
    const segments = segmentsIn(directory).flatMap((name) => this.#read(name, found) ?? [])
    this.#segments = segments.map(({ segment }) => segment)
    const shifts = new Map<unknown, number>()
    let endMs = clock()
    for (const { segment, firstMs, lastMs } of segments.reverse()) {
      shifts.set(segment, endMs - lastMs)
      endMs -= lastMs - firstMs
    }
    this.#begin()
    return shifts
  }

  /** Writes the last record of a key. @returns false when it is not in the file */
  append(entry: Journaled, record: KeyRecord): boolean {
    const segment = this.#segments.at(-1)
    if (segment === undefined || this.#isDoubtful) return false
    const line = keyLine(entry.id, record, segment.seal)
    if (!this.#log.append(line, this.#options.clock())) return false
    // What a failed write has left before it counts too.
    segment.bytes = fstatSync(segment.fd).size
    this.forget(entry)
    if (record.state === 'free') return true
    this.keep(entry, { segment, at: segment.bytes - line.length, bytes: line.length })
    return true
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
    const { descriptor } = this.#log
    if (descriptor === undefined) {
      for (const run of group) run(new Error('the journal is closed'))
      return
    }
    this.#isSyncing = true
    fdatasync(descriptor, (error) => {
      this.#isSyncing = false
      if (error !== null) {
        this.#isDoubtful = true
        this.#options.onFault(`${this.#options.directory}: cannot sync: ${error.message}`)
      }
      for (const run of group) run(error ?? undefined)
      if (this.#waiting.length > 0 && !this.#isSyncing) this.#beginSync()
    })
  }

  /** Undefined when it cannot be read. */
  read({ id, segment, at, bytes }: Journaled): KeyRecord | undefined {
    if (segment === undefined) return undefined
    const line = Buffer.alloc(bytes)
    try {
      readSync(segment.fd, line, 0, bytes, at)
    } catch (error) {
      this.#options.onFault(`${segment.file}: cannot read: ${String(error)}`)
      return undefined
    }
    const read = readKeyLine(line.toString('latin1', 0, bytes - 1), segment.seal)
    return read?.id === id ? read.record : undefined
  }

  /** To be called once a second: retries writes, begins and removes segments. @param again the record of a key in the present clock */
  maintain(again: (entry: Journaled) => KeyRecord): void {
    const current = this.#segments.at(-1)
    if (current === undefined) return
    this.#log.maintain(this.#options.clock())
    const wasDoubtful = this.#isDoubtful
    // A sync works on the open file.
    if ((current.bytes >= this.#segmentBytes || wasDoubtful) && !this.#isSyncing) this.#rotate()
    if (wasDoubtful && !this.#isDoubtful) for (const entry of current.live) this.append(entry, again(entry))
    this.#compact(again)
  }

  /** Goes on after another process may have written segments, in one behind them. */
  resume(): void {
    this.#isDoubtful = true
    this.#rotate()
  }

  #rotate(): void {
    try {
      this.#begin()
    } catch (error) {
      this.#options.onFault(`${this.#options.directory}: cannot begin a file: ${String(error)}`)
    }
  }

  /** Removes the oldest segment when it is due, a slice in each turn. */
  #compact(again: (entry: Journaled) => KeyRecord): void {
    if (this.#isCompacting) return
    this.#isCompacting = true
    this.#compactNext(again)
  }

  #compactNext(again: (entry: Journaled) => KeyRecord): void {
    const [oldest, next] = this.#segments
    const isDue = oldest !== undefined && next !== undefined && (oldest.live.size === 0 || this.#isWasteful)
    if (!isDue || !this.#copySlice(oldest, again)) this.#isCompacting = false
    else if (oldest.live.size > 0) setImmediate(() => this.#compactNext(again))
    else
      this.#sync((error) => {
        if (error === undefined) this.#remove(oldest)
        if (error === undefined) this.#compactNext(again)
        else this.#isCompacting = false
      })
  }

  get #isWasteful(): boolean {
    const total = this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
    return total > 2 * this.#liveBytes + 2 * this.#segmentBytes
  }

  /** @returns false when nothing can be written */
  #copySlice({ live }: Segment, again: (entry: Journaled) => KeyRecord): boolean {
    let left = SLICE_BYTES
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
    const { directory, secret, clock } = this.#options
    const number = numberOf(segmentsIn(directory).at(-1) ?? '') + 1
    const file = join(directory, `keys-${String(number).padStart(10, '0')}.log`)
    const salt = randomBytes(SALT_BYTES)
    const names = { salt: salt.toString('base64url'), check: secret.nameOf('check', salt) }
    const header = JSON.stringify({ format: FORMAT, version: VERSION, ...names, atMs: clock() })
    const fd = openSync(file, 'ax', OWNER_ONLY)
    syncDirectory(directory)
    this.#log.moveTo(fd, `${header}\n`, clock())
    this.#isDoubtful = false
    const live = new Set<Journaled>()
    this.#segments.push({
      ...{ file, live, bytes: 0 },
      fd: openSync(file, 'r'),
      seal: secret.sealOf(salt),
    })
  }

  /** Gives the files up. */
  close(): void {
    this.#log.close()
    for (const { fd } of this.#segments.splice(0)) closeSync(fd)
  }

  /** @returns undefined for a segment that was not begun @throws Error that names the file */
  #read(name: string, found: OnFound): FoundSegment | undefined {
    const { directory, secret, onFault } = this.#options
    const file = join(directory, name)
    const text = readFileSync(file, 'latin1')
    const lines = text.split('\n')
    const torn = lines.pop() ?? ''
    const first = lines.shift()
    if (first === undefined) {
      rmSync(file)
      return undefined
    }
    const { salt, atMs } = headerOf(file, first, secret)
    const segment: Segment = {
      ...{ file, live: new Set<Journaled>(), bytes: text.length },
      fd: openSync(file, 'r'),
      seal: secret.sealOf(salt),
    }
    const result: FoundSegment = { segment, firstMs: atMs, lastMs: atMs }
    let at = first.length + 1
    let damaged = 0
    for (const line of lines) {
      const bytes = line.length + 1
      const read = readKeyLine(line, segment.seal)
      if (read?.record === undefined && line !== '') damaged += 1
      if (read?.record !== undefined) result.lastMs = Math.max(result.lastMs, read.record.atMs)
      if (read !== undefined) found(read.id, read.record, { segment, at, bytes })
      at += bytes
    }
    if (damaged > 0) onFault(`${file}: ${damaged} line(s) are damaged: the outcome of their keys is unknown`)
    if (torn !== '') onFault(`${file}: the last line was cut off and is left out`)
    return result
  }
}

/** Oldest first. */
function segmentsIn(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => SEGMENT.test(name))
    .sort()
}

function numberOf(name: string): number {
  return Number(SEGMENT.exec(name)?.[1] ?? 0)
}

/** @throws Error that names the file */
function headerOf(file: string, line: string, secret: KeySecret) {
  let header: { format?: unknown; version?: unknown; salt?: unknown; check?: unknown; atMs?: unknown }
  try {
    header = JSON.parse(line)
  } catch {
    header = {}
  }
  const { format, version, check, atMs } = header
  if (format !== FORMAT)
    throw new Error(`${file} is no file of idempotency keys, or its first line is damaged`)
  if (Number(version) > VERSION)
    throw new NewerFormatError(`${file} was written by a newer version of the gateway`)
  const salt = Buffer.from(String(header.salt), 'base64url')
  if (secret.nameOf('check', salt) !== check)
    throw new Error(
      `${file} was written with another "idempotencyKeyFile": bring that one back, or move the directory away, which forgets every key`,
    )
  return { salt, atMs: Number(atMs) }
}
