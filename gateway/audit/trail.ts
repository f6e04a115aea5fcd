import type { Durability } from '../config/settings.ts'
import { type Commit, type CommitFault, Commits } from './commit.ts'
import { settleDeparted } from './departed.ts'
import { syncDirectory } from './file.ts'
import { Gathered } from './gathered.ts'
import type { AuditLock } from './lock.ts'
import { Notes, seatBytes } from './notes.ts'
import { Owed } from './owed.ts'
import { Pen } from './pen.ts'
import { recoveredRecord, type StartFacts, startRecord, typeOf } from './records.ts'
import type { Recovery } from './recovery.ts'
import { sortFailed } from './refused.ts'
import { SharedState, type TrailHandle } from './shared.ts'
import { Sink, STANDARD_OUTPUT } from './sink.ts'

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
  /** Released when the trail is closed. */
  readonly lock?: AuditLock
  /** Every write or commit that failed, and every file that could not be opened. */
  onFault(error: Error): void
  /** Every record, once it has been handed to the operating system whole; with `synced`, once the disk has it. */
  onRecord(type: string): void
}

/** Requests that a thread can have open and still be settled for when it dies; the next start settles any number. */
const NOTED_OPEN = 8192
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
 * Durability `written`: the line has been handed to the operating system by one `write` when the call returns. `synced`:
 * the call returns a `Commit`, one for all lines that go to the disk together. `buffered`: lines gather in memory for
 * 5 ms or 64 KiB, and a crash loses those.
 *
 * A file never holds a torn line with others after it: what a failed write left of a line is cut off, and where that
 * cannot be done (standard output, an append-only file) its rest is written before anything else.
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
  readonly #shared: SharedState
  readonly #notes: Notes | undefined
  readonly #pen: Pen
  /** `synced`. */
  readonly #commits: Commits | undefined
  /** `buffered`. */
  readonly #gathered: Gathered | undefined
  #writable = true
  #closed = false
  /** Why the trail cannot be written, when it cannot. */
  #fault: Error | undefined = undefined
  /** To be written before anything else. */
  readonly #owed: Owed
  /** Since the trail became unwritable. */
  #refused = 0
  /** Inode of the file before, until AUDIT_START stands in the new one. */
  #continues: string | undefined = undefined

  /**
   * Opens the file, or joins those who have, and writes nothing: a gateway calls `openTrail` or `joinTrail`.
   *
   * @throws Error that names the file, when it cannot be opened or has no seat left.
   */
  constructor(options: TrailOptions, joined?: TrailHandle) {
    this.#options = options
    const { threads = 0, durability } = options
    this.#shared = joined
      ? new SharedState(joined.shared)
      : SharedState.create({ seats: threads, seatBytes: seatBytes(NOTED_OPEN) })
    const shared = this.#shared
    this.#notes = joined === undefined ? undefined : seatIn(shared, options.file)
    const sink = joined === undefined ? Sink.open(options.file) : new Sink(shared.fd)
    if (joined === undefined) shared.setFile(sink.fd, sink.sizeBytes)
    this.#pen = new Pen({ shared, sink, notes: this.#notes, commits: durability === 'synced' })
    this.#owed = new Owed({ pen: this.#pen, onPut: (lines, error) => this.#told(lines, error) })
    if (durability === 'buffered') this.#gathered = new Gathered((lines) => this.#putGathered(lines))
    if (durability === 'synced') {
      this.#commits = new Commits({
        pen: this.#pen,
        shared,
        onCommitted: (lines) => this.#count(lines),
        onFailed: (fault) => this.#uncommitted(fault),
      })
    }
  }

  /** `false` from a write that failed until one succeeds again, and after `close`. */
  get writable(): boolean {
    return this.#writable
  }

  /** What another thread needs to join. */
  get handle(): TrailHandle {
    return { file: this.#options.file, shared: this.#shared.buffer }
  }

  /** First of all: the responses that recovery found missing, then AUDIT_START. */
  begin(recovery: Recovery): void {
    const { records, cutBytes, damagedLines, unresolved } = recovery
    this.#shared.open = records.length
    const locked = this.#options.lock?.held
    for (const record of records) this.#owed.add([record])
    const facts = { recovered: records.length, cutBytes, damagedLines, unresolved, locked }
    this.#owed.add([this.#start(facts, 0)])
    const error = this.#mend(() => this.#owed.flush())
    if (error !== undefined) this.#pause(error)
  }

  /**
   * Records the API_REQUEST of a request that is refused if it cannot be recorded.
   *
   * @returns undefined when the request can go on; a `Commit` when it has to wait for its end, and go on only if that is
   * good; otherwise why not, and then no API_RESPONSE must follow.
   */
  append(record: string): Error | Commit | undefined {
    if (!this.recheck()) {
      this.#refused++
      return this.#fault ?? new Error('the audit trail is being mended')
    }
    if (this.#commits !== undefined) return this.#commits.add(record)
    if (this.#gathered !== undefined) {
      this.#gathered.add(record)
      return undefined
    }
    const error = this.#put(record)
    if (error === undefined) return undefined
    // A part of the line is in the trail for good: then it becomes whole, and gets its other half.
    if (this.#pen.torn) this.#owed.add([record], [recoveredRecord(record)])
    this.#refused++
    this.#pause(error)
    return error
  }

  /**
   * Records what has already happened, now or as soon as the trail can be written.
   *
   * @returns a `Commit` when the client must not see it before the end of that.
   */
  settle(record: string): Commit | undefined {
    if (this.#closed) {
      this.#options.onFault(new Error('an audit record came after the trail was closed'))
      return undefined
    }
    if (!this.recheck()) this.#owed.add([record])
    else if (this.#commits !== undefined) return this.#commits.add(record)
    else if (this.#gathered !== undefined) this.#gathered.add(record)
    else {
      const error = this.#put(record)
      if (error === undefined) return undefined
      this.#owed.add([record])
      this.#pause(error)
    }
    return undefined
  }

  /**
   * Tries to write again after a write has failed; costs nothing as long as none has. New requests do it by themselves;
   * /readyz or a timer must, so that the trail recovers without traffic.
   *
   * @returns `writable` as it is afterwards.
   */
  recheck(): boolean {
    if (this.#writable || this.#closed) return this.#writable
    if (this.#commits !== undefined && !this.#shared.takeTurn()) return false
    this.#fault = this.#mend(() => this.#owed.flush() ?? this.#resume())
    this.#shared.passTurn()
    this.#writable = this.#fault === undefined
    return this.#writable
  }

  /**
   * Goes on in a new file of the same name, after the present one was renamed (SIGHUP), with every thread that has
   * joined. If it cannot be opened, the trail goes on in the old one, and `onFault` is told.
   */
  reopen(): void {
    if (this.#closed || this.#notes !== undefined || this.#options.file === STANDARD_OUTPUT) return
    this.#gathered?.flush()
    if (this.#commits !== undefined && !this.#shared.takeTurn()) {
      setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
      return
    }
    try {
      const next = Sink.open(this.#options.file)
      const old = this.#pen.sink.identity()
      const { device, inode } = next.identity()
      if (device === old.device && inode === old.inode) next.close()
      else if (!this.#moveTo(next, old.inode)) setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
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
    for (const line of last?.lines ?? []) this.#owed.add([line])
    if (this.#notes === undefined) this.#owed.add({ reason, timestamp: this.#timestamp() })
    const error = this.#owed.flush() ?? (this.#commits && this.#sync())
    last?.commit.finish(error)
    this.#closed = true
    this.#writable = false
    this.#fault = new Error('the audit trail is closed')
    const left = this.#owed.lines
    if (left > 0)
      this.#options.onFault(new Error(`${left} audit records could not be written before the end`))
    if (this.#notes === undefined) this.#closeSink(this.#pen.sink)
    else if (this.#notes.count === 0) this.#notes.release()
    this.#options.lock?.release()
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

  /**
   * Lines that the old file would not take go to the new one, whole.
   *
   * @returns false when other threads would not let this one have the file: it has been renamed, so it has to be left.
   */
  #moveTo(next: Sink, continues: string): boolean {
    let old: Sink | undefined
    this.#pen.during(() => {
      if (this.#commits ? this.#writable : this.recheck()) {
        this.#owed.add({ reason: 'rotated', timestamp: this.#timestamp() })
        this.#owed.flush()
      }
      old = this.#pen.moveTo(next)
      this.#continues = continues
      this.#writable = false
      return undefined
    })
    if (old === undefined) {
      next.close()
      return false
    }
    if (this.#commits !== undefined) {
      old.sync()
      syncDirectory(this.#options.file)
    }
    this.#closeSink(old)
    return true
  }

  #closeSink(sink: Sink): void {
    try {
      sink.close()
    } catch (error) {
      this.#options.onFault(error as Error)
    }
  }

  #put(record: string): Error | undefined {
    const error = this.#pen.putOne(record)
    if (error === undefined) this.#options.onRecord(typeOf(record))
    else this.#options.onFault(error)
    return error
  }

  /** `buffered`: what these lines tell of has happened. */
  #putGathered(lines: readonly string[]): void {
    const error = this.#writable ? this.#pen.put(lines) : this.#fault
    if (error === undefined) {
      this.#count(lines)
      return
    }
    if (this.#pen.torn) this.#owed.add(lines)
    else this.#owed.add(...lines.map((line) => [line]))
    if (!this.#writable) return
    this.#options.onFault(error)
    this.#pause(error)
  }

  /** `synced`: the requests are refused, what has happened is owed. */
  #uncommitted({ error, written, waiting }: CommitFault): void {
    const { owed, refused } = sortFailed([...written, ...waiting])
    const torn = this.#pen.torn ? new Set(written) : undefined
    if (torn !== undefined) this.#owed.add(written)
    for (const line of refused) if (torn?.has(line)) this.#owed.add([recoveredRecord(line)])
    for (const line of owed) if (!torn?.has(line)) this.#owed.add([line])
    this.#refused += refused.length
    this.#options.onFault(error)
    if (!this.#closed) this.#pause(error)
  }

  #resume(): Error | undefined {
    const facts = { refused: this.#refused, continues: this.#continues }
    const { line, error } = this.#pen.putMark((open) => this.#start(facts, open))
    this.#told([line], error)
    if (error === undefined) {
      this.#refused = 0
      this.#continues = undefined
    } else if (this.#pen.torn) this.#owed.add([line])
    return error
  }

  /** With the turn. `synced`: all of it is committed or nothing is written, for the rest might be lost. */
  #mend(write: () => Error | undefined): Error | undefined {
    if (this.#commits === undefined) return write()
    const point = this.#pen.markTurn()
    if (point === undefined) return new Error('another thread has held the audit file for too long')
    const before = { owed: this.#owed.copy(), refused: this.#refused, continues: this.#continues }
    const error = write() ?? this.#sync()
    const lines = before.owed.filter((item) => Array.isArray(item)).flat()
    if (error === undefined) this.#pen.committed(lines)
    if (error === undefined || this.#pen.torn) return error
    this.#pen.backTo(point, lines)
    this.#owed.restore(before.owed)
    this.#refused = before.refused
    this.#continues = before.continues
    return error
  }

  #sync(): Error | undefined {
    try {
      this.#pen.sink.sync()
      return undefined
    } catch (error) {
      this.#options.onFault(error as Error)
      return error as Error
    }
  }

  #pause(error: Error): void {
    this.#writable = false
    this.#fault = error
    const reason = `write failed: ${(error as NodeJS.ErrnoException).code ?? error.message}`
    this.#owed.add({ reason, timestamp: this.#timestamp() })
  }

  #start(facts: Partial<StartFacts>, open: number): string {
    const { version } = this.#options
    return startRecord({ ...facts, timestamp: this.#timestamp(), pid: process.pid, open, version })
  }

  #told(lines: readonly string[], error: Error | undefined): void {
    if (error === undefined) this.#count(lines)
    else this.#options.onFault(error)
  }

  #count(lines: readonly string[]): void {
    for (const line of lines) this.#options.onRecord(typeOf(line))
  }

  #timestamp(): string {
    const now = this.#options.now ?? Date.now
    return new Date(now()).toISOString()
  }
}

function seatIn(shared: SharedState, file: string): Notes {
  const seat = shared.claimSeat()
  if (seat === undefined) throw new Error(`audit file ${file} has no seat left for another thread`)
  return new Notes(seat)
}
