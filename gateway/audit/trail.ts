import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { recoveredRecord, typeOf } from './audit-records.ts'
import { Gathered } from './commit/buffered-commit.ts'
import { sortFailed } from './commit/failed-commit.ts'
import { type Commit, type CommitFault, Commits } from './commit/group-commit.ts'
import { Pauses } from './commit/outage.ts'
import { rotate } from './file/rotate-trail.ts'
import { SharedState, type TrailHandle } from './file/shared-trail.ts'
import { Pen } from './file/trail-file.ts'
import { Sink, STANDARD_OUTPUT } from './file/trail-sink.ts'
import { settleDeparted } from './recovery/dead-worker.ts'
import { Notes, seatBytes } from './recovery/open-request-notes.ts'
import type { Recovery } from './recovery/recovery.ts'

export interface TrailOptions {
  /** `-` is standard output. */
  readonly file: string
  /** How far a record has got when the request goes on; `written` when left out. `synced` needs a regular file. */
  readonly durability?: Durability
  /** Threads that can join at one time; none when left out. */
  readonly threads?: number
  /** Of the gateway, for AUDIT_START. */
  readonly version?: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** How long responses wait for records that cannot be written, milliseconds. */
  readonly patienceMs?: number
  /** Released when the trail is closed. */
  readonly lock?: ProcessLock
  /** Every write or commit that failed, and every file that could not be opened. */
  onFault(error: Error): void
  /** Every record, once it has been handed to the operating system whole; with `synced`, once the disk has it. */
  onRecord(type: string): void
}

/** Requests that a thread can have open and still be settled for when it dies; the next start settles any number. */
const NOTED_OPEN = 8192
/** Clients are more patient, and most proxies too. */
const PATIENCE_MS = 5000
/** A rotation that comes in the middle of a commit, or cannot have the file, is tried again. */
const ROTATE_AGAIN_MS = 5

/**
 * The audit trail: one line after the other in a file that several threads of this process may share. The thread that
 * opens it (`openTrail`) begins, rotates and ends it; others append to it by its `handle` (`joinTrail`).
 *
 * Two verbs. `append` is for what can still be refused: the line is in the file whole, or it is not and the caller
 * refuses the request. `settle` is for what has already happened: a line that cannot be written now is kept, and is
 * written, in its place, before any later one. What is kept are the responses of requests that are in the file, so
 * their number is bounded by the requests in flight.
 *
 * Durability `written` and `synced`: both verbs return a `Commit`, one for all lines that go in together. `written`: the
 * lines of a turn of the event loop are handed to the operating system by one `write` at its end, all of them or none.
 * `synced`: the disk has them too. `buffered`: lines gather in memory for 5 ms or 64 KiB, and a crash loses those.
 *
 * A file never holds a torn line with others after it: what a failed write left is cut off, and where that cannot be
 * done (standard output, an append-only file) the rest of its lines is written before anything else.
 *
 * A time in which the trail could not be written stands in it afterwards, as an AUDIT_STOP with the reason and an
 * AUDIT_START with the number of requests refused. A rotation leaves the same two, at the end of one file and the
 * beginning of the next. Both say how many requests were open, which is what recovery goes by.
 *
 * Standard output is for a supervisor that collects it. A full pipe that does not block is given 50 ms, then the trail
 * is unwritable until `recheck` finds room; a full pipe that blocks holds the whole gateway; and nothing is recovered
 * at the next start. A file is the better place.
 */
export class Trail {
  readonly #options: TrailOptions
  #lock: ProcessLock | undefined
  readonly #shared: SharedState
  readonly #notes: Notes | undefined
  readonly #pen: Pen
  readonly #pauses: Pauses
  /** `synced`. */
  readonly #syncs: boolean
  /** `written` and `synced`. */
  readonly #commits: Commits | undefined
  /** `buffered`. */
  readonly #gathered: Gathered | undefined
  #closed = false

  /**
   * Opens the file, or joins those who have, and writes nothing: a gateway calls `openTrail` or `joinTrail`.
   *
   * @throws Error that names the file, when it cannot be opened or has no seat left.
   */
  constructor(options: TrailOptions, joined?: TrailHandle) {
    this.#options = options
    const { threads = 0, durability, version, now = Date.now, patienceMs = PATIENCE_MS, lock } = options
    const shared = joined
      ? new SharedState(joined.shared)
      : SharedState.create({ seats: threads, seatBytes: seatBytes(NOTED_OPEN) })
    const syncs = durability === 'synced'
    const notes = joined === undefined ? undefined : seatIn(shared, options.file)
    const sink = joined === undefined ? Sink.open(options.file) : new Sink(shared.fd)
    if (joined === undefined) shared.setFile(sink.fd, sink.sizeBytes)
    const pen = new Pen({ shared, sink, notes, commits: syncs })
    const onPut = this.#told.bind(this)
    const pauses = new Pauses({ pen, shared, syncs, version, now, patienceMs, onPut })
    this.#lock = lock
    this.#shared = shared
    this.#syncs = syncs
    this.#notes = notes
    this.#pen = pen
    this.#pauses = pauses
    if (durability === 'buffered') this.#gathered = new Gathered((lines) => this.#putGathered(lines))
    else {
      const mend = () => pauses.mend()
      const onCommitted = this.#count.bind(this)
      const onFailed = this.#uncommitted.bind(this)
      this.#commits = new Commits({ pen, shared, syncs, mend, onCommitted, onFailed })
    }
  }

  /** `false` from a write that failed until one succeeds again, and after `close`. */
  get writable(): boolean {
    return this.#pauses.writable
  }

  /** What another thread needs to join. */
  get handle(): TrailHandle {
    return { file: this.#options.file, shared: this.#shared.buffer }
  }

  /** First of all: the responses that recovery found missing, then AUDIT_START. They are in the file when it returns. */
  begin({ records, cutBytes, damagedLines, unresolved }: Recovery): void {
    this.#shared.open = records.length
    this.#pauses.begin(records, { cutBytes, damagedLines, unresolved, locked: this.#lock?.held })
  }

  /**
   * Records the API_REQUEST of a request that is refused if it cannot be recorded.
   *
   * @returns a `Commit`: the request waits for its end, and goes on only if that is good; `undefined` (`buffered`): it
   * can go on; an error: why it is not recorded, and then no API_RESPONSE must follow.
   */
  append(record: string): Error | Commit | undefined {
    if (!this.recheck()) {
      this.#pauses.countRefused(1)
      return this.#pauses.fault
    }
    return this.#add(record)
  }

  /**
   * Records what has already happened, now or as soon as the trail can be written.
   *
   * @returns a `Commit` when the client must not see it before the end of that, good or not.
   */
  settle(record: string): Commit | undefined {
    if (this.#closed) {
      this.#options.onFault(new Error('an audit record came after the trail was closed'))
      return undefined
    }
    if (this.recheck()) return this.#add(record)
    this.#pauses.owe([record])
    return undefined
  }

  /** Calls back when nothing is owed any more, or with why that is not waited for. Who chose `buffered` never waits. */
  whenPaid(run: (unpaid: Error | undefined) => void): void {
    if (this.#commits === undefined) run(undefined)
    else this.#pauses.whenPaid(run)
  }

  /** Once a second: tries again what could not be written, and begins a file anew that was removed. */
  look(): void {
    if (!this.#closed && this.#notes === undefined && this.#pen.sink.isRemoved) this.#beginAnew()
    this.recheck()
  }

  #beginAnew(): void {
    const { file, onFault } = this.#options
    onFault(new Error(`audit file ${file} was removed while it was written: it is begun anew`))
    this.reopen()
    try {
      this.#lock = this.#lock?.renewed()
    } catch (error) {
      onFault(error as Error)
    }
  }

  /**
   * Tries to write again after a write has failed; costs nothing as long as none has. New requests do it by themselves;
   * /readyz or a timer must, so that the trail recovers without traffic.
   *
   * @returns `writable` as it is afterwards.
   */
  recheck(): boolean {
    return this.#pauses.recheck()
  }

  /**
   * Goes on in a new file of the same name, after the present one was renamed (SIGHUP), with every thread that has
   * joined. If it cannot be opened, the trail goes on in the old one, and `onFault` is told.
   */
  reopen(): void {
    if (this.#closed || this.#notes !== undefined || this.#options.file === STANDARD_OUTPUT) return
    if (this.#syncs && !this.#shared.takeTurn()) {
      setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
      return
    }
    this.#gathered?.flush()
    if (!this.#syncs) this.#commits?.flush()
    const { file } = this.#options
    try {
      const isDone = rotate({ file, pen: this.#pen, pauses: this.#pauses, syncs: this.#syncs })
      if (!isDone) setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
    } catch (error) {
      this.#options.onFault(error as Error)
    }
    this.#shared.passTurn()
    this.recheck()
  }

  /**
   * Ends the trail with AUDIT_STOP; a thread that joined only ends its part in it. If even that cannot be written,
   * `onFault` hears how many records are missing.
   */
  close(reason: string): void {
    if (this.#closed) return
    this.#gathered?.flush()
    const last = this.#commits?.take()
    this.#pauses.owe(last?.lines ?? [])
    if (this.#notes === undefined) this.#pauses.stop(reason)
    const { left, error } = this.#pauses.end()
    this.#closed = true
    if (left > 0)
      this.#options.onFault(new Error(`${left} audit records could not be written before the end`))
    if (this.#notes === undefined) this.#closeFile()
    else if (this.#notes.count === 0) this.#notes.release()
    this.#lock?.release()
    last?.commit.finish(error)
  }

  /**
   * Ends what a thread that has died had begun: gives up its lock, cuts off the line it was writing, and writes the
   * responses of the requests that were open in it, as a start after a crash does (`recovered`). To be called by the
   * thread that opened the trail, once the other is no more; until then the others cannot write if it held the lock.
   *
   * @param thread its `threadId`.
   * @returns how many responses that were.
   */
  settleOpenOf(thread: number): number {
    const departed = { thread, file: this.#options.file, pen: this.#pen, shared: this.#shared }
    try {
      return settleDeparted(departed, (line) => this.settle(recoveredRecord(line)))
    } catch (error) {
      this.#options.onFault(error as Error)
      return 0
    }
  }

  #closeFile(): void {
    try {
      this.#pen.sink.close()
    } catch (error) {
      this.#options.onFault(error as Error)
    }
  }

  #add(record: string): Commit | undefined {
    if (this.#commits !== undefined) return this.#commits.add(record)
    this.#gathered?.add(record)
    return undefined
  }

  /** `buffered`: what these lines tell of has happened. */
  #putGathered(lines: readonly string[]): void {
    const wasWritable = this.writable
    const error = wasWritable ? this.#pen.put(lines) : this.#pauses.fault
    if (error === undefined) {
      this.#count(lines)
      return
    }
    const standing = wasWritable ? this.#pen.standing : 0
    this.#count(lines.slice(0, standing))
    this.#pauses.owe(lines.slice(standing))
    if (wasWritable) this.#failed(error)
  }

  /** What has happened is owed, and a request that is in the file for good gets its response as after a crash. */
  #uncommitted({ error, tried, waiting }: CommitFault): void {
    const { torn, standing } = this.#pen
    const tornLine = tried.slice(standing, torn ? standing + 1 : standing)
    const inFile = tried.slice(0, standing)
    const { refused, stranded, owed } = sortFailed([...tried, ...waiting], [...inFile, ...tornLine])
    this.#count(inFile)
    this.#pauses.owe([...tornLine, ...owed, ...stranded.map(recoveredRecord)])
    this.#pauses.countRefused(refused.length)
    if (this.writable) this.#failed(error)
    else if (this.#closed) this.#options.onFault(error)
  }

  #failed(error: Error): void {
    this.#options.onFault(error)
    this.#pauses.pause(error)
  }

  #told(lines: readonly string[], error: Error | undefined): void {
    if (error === undefined) this.#count(lines)
    else this.#options.onFault(error)
  }

  #count(lines: readonly string[]): void {
    for (const line of lines) this.#options.onRecord(typeOf(line))
  }
}

function seatIn(shared: SharedState, file: string): Notes {
  const seat = shared.claimSeat()
  if (seat === undefined) throw new Error(`audit file ${file} has no seat left for another thread`)
  return new Notes(seat)
}
