import type { Durability } from '../config/settings.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { recoveredRecord } from './audit-records.ts'
import { BufferedCommit } from './commit/buffered-commit.ts'
import type { Commit, CommitPolicy, OnCommitted } from './commit/commit.ts'
import { GroupCommit } from './commit/group-commit.ts'
import { Outage } from './commit/outage.ts'
import { rotate } from './file/rotate-trail.ts'
import { SharedTrail, type TrailHandle } from './file/shared-trail.ts'
import { TrailFile } from './file/trail-file.ts'
import { STANDARD_OUTPUT, TrailSink } from './file/trail-sink.ts'
import { settleDeadWorker } from './recovery/dead-worker.ts'
import { OpenRequestNotes, seatBytes } from './recovery/open-request-notes.ts'
import type { Recovery } from './recovery/recovery.ts'
import { type TrailListeners, TrailReports } from './trail-reports.ts'

export interface TrailOptions extends TrailListeners {
  /** `-` is standard output. */
  readonly file: string
  /** How far a record must have got before the request goes on; `written` by default. `synced` needs a regular file. */
  readonly durability?: Durability
  /** How many threads can join at a time; 0 by default. */
  readonly threads?: number
  /** Of the gateway, for AUDIT_START. */
  readonly version?: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** How long responses wait for records that cannot be written, milliseconds. */
  readonly patienceMs?: number
  /** Released when the trail is closed. */
  readonly lock?: ProcessLock
}

/** Open requests of a thread that can be settled as soon as it dies; the next start settles any number. */
const NOTED_OPEN = 8192
/** Shorter than the timeout of clients and most proxies. */
const PATIENCE_MS = 5000
/** When a rotation is tried again that came during a commit, or did not get the file. */
const ROTATE_AGAIN_MS = 5

/**
 * The audit trail: a file of lines that several threads of this process may share. The thread that opens it (`openTrail`)
 * begins, rotates and ends it; others append to it by its `handle` (`joinTrail`).
 *
 * Two verbs. `append` is for what can still be refused: either the whole line is in the file, or the caller refuses the
 * request. `settle` is for what has already happened: a line that cannot be written now stays pending and is written
 * before any later one. Pending lines are responses of requests in flight, so their number is bounded.
 *
 * Sequence: a line goes to the commit policy (`written`, `synced` or `buffered`), which writes it to the trail file; what
 * fails goes to the outage, which writes it as soon as that is possible. Each calls only those behind it.
 *
 * `written`: the lines of a turn of the event loop are handed to the operating system by one `write` at its end, all of
 * them or none. `synced`: the disk has them too. `buffered`: lines wait in memory for 5 ms or 64 KiB; a crash loses those.
 *
 * A torn line is always the last one of the file: what a failed write left is cut off. Where that cannot be done (standard
 * output, an append-only file) the rest of the line is written first.
 *
 * After an outage the trail holds an AUDIT_STOP with the reason and an AUDIT_START with the number of requests refused. A
 * rotation leaves the same two, at the end of one file and the beginning of the next. Both count the open requests,
 * which recovery relies on.
 *
 * Standard output is for a supervisor that collects it. A full non-blocking pipe is given 50 ms, then the trail is
 * unwritable until `recheck` finds room; a full blocking pipe stops the whole gateway; and nothing is recovered at the
 * next start. A file is the better choice.
 */
export class Trail {
  readonly #options: TrailOptions
  #lock: ProcessLock | undefined
  readonly #shared: SharedTrail
  /** Of a thread that joined. */
  readonly #notes: OpenRequestNotes | undefined
  readonly #trailFile: TrailFile
  readonly #outage: Outage
  readonly #policy: CommitPolicy
  #closed = false

  /**
   * Opens the file, or joins the threads that have; writes nothing. Use `openTrail` or `joinTrail`.
   *
   * @throws Error that names the file, when it cannot be opened or has no seat left.
   */
  constructor(options: TrailOptions, joined?: TrailHandle) {
    this.#options = options
    const { threads = 0, durability, version, now = Date.now, patienceMs = PATIENCE_MS, lock } = options
    const shared = joined
      ? new SharedTrail(joined.shared)
      : SharedTrail.create({ seats: threads, seatBytes: seatBytes(NOTED_OPEN) })
    const syncs = durability === 'synced'
    const notes = joined === undefined ? undefined : seatIn(shared, options.file)
    const sink = joined === undefined ? TrailSink.open(options.file) : new TrailSink(shared.fd)
    if (joined === undefined) shared.setFile(sink.fd, sink.sizeBytes)
    const reports = new TrailReports(options)
    const trailFile = new TrailFile({ shared, sink, notes, syncs })
    const outage = new Outage({ trailFile, shared, reports, syncs, version, now, patienceMs })
    this.#lock = lock
    this.#shared = shared
    this.#notes = notes
    this.#trailFile = trailFile
    this.#outage = outage
    this.#policy =
      durability === 'buffered'
        ? new BufferedCommit({ trailFile, outage, reports })
        : new GroupCommit({ trailFile, shared, outage, reports, syncs })
  }

  /** `false` from a write that failed until one succeeds again, and after `close`. */
  get writable(): boolean {
    return this.#outage.writable
  }

  /** What another thread needs to join. */
  get handle(): TrailHandle {
    return { file: this.#options.file, shared: this.#shared.buffer }
  }

  /** Writes the first lines: the responses that recovery found missing, then AUDIT_START. */
  begin({ records, cutBytes, damagedLines, unresolved }: Recovery): void {
    this.#shared.open = records.length
    this.#outage.writeFirst(records, { cutBytes, damagedLines, unresolved, locked: this.#lock?.held })
  }

  /**
   * Records the API_REQUEST of a request that is refused if it cannot be recorded.
   *
   * @returns a `Commit`: the request waits for it and goes on if it succeeds; `undefined` (`buffered`): the request goes
   * on; an error: the line is not recorded, and no API_RESPONSE must follow.
   */
  append(record: string): Error | Commit | undefined {
    if (this.recheck()) return this.#policy.add(record)
    this.#outage.countRefused(1)
    return this.#outage.fault
  }

  /**
   * Records what has already happened, now or as soon as the trail can be written.
   *
   * @returns a `Commit` when the client must not see the response before it is done, whether it succeeds or not.
   */
  settle(record: string): Commit | undefined {
    if (this.#closed) {
      this.#options.onFault(new Error('an audit record came after the trail was closed'))
      return undefined
    }
    if (this.recheck()) return this.#policy.add(record)
    this.#outage.addPending([record])
    return undefined
  }

  /** Calls back when no record is pending, or with an error when that takes too long. `buffered`: at once. */
  whenPendingWritten(run: OnCommitted): void {
    if (this.#options.durability === 'buffered') run(undefined)
    else this.#outage.whenPendingWritten(run)
  }

  /** To be called once a second: tries again what could not be written, and replaces a file that was removed. */
  maintain(): void {
    if (!this.#closed && this.#notes === undefined && this.#trailFile.sink.isRemoved) this.#replaceRemoved()
    this.recheck()
  }

  #replaceRemoved(): void {
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
   * Tries to write again after a failed write; costs nothing otherwise. New requests call it; /readyz or a timer must too,
   * so that the trail recovers without traffic.
   *
   * @returns `writable` afterwards.
   */
  recheck(): boolean {
    return this.#outage.recheck()
  }

  /**
   * Goes on in a new file of the same name, with all joined threads, after the present one was renamed (SIGHUP). If the
   * new one cannot be opened, `onFault` is called and the trail stays in the old one.
   */
  reopen(): void {
    const { file, durability } = this.#options
    const syncs = durability === 'synced'
    if (this.#closed || this.#notes !== undefined || file === STANDARD_OUTPUT) return
    if (syncs && !this.#shared.takeTurn()) {
      setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
      return
    }
    this.#policy.flush()
    try {
      const isDone = rotate({ file, trailFile: this.#trailFile, outage: this.#outage, syncs })
      if (!isDone) setTimeout(() => this.reopen(), ROTATE_AGAIN_MS)
    } catch (error) {
      this.#options.onFault(error as Error)
    }
    this.#shared.passTurn()
    this.recheck()
  }

  /**
   * Ends the trail with AUDIT_STOP; a joined thread only leaves it. Records that cannot be written even now are counted in
   * a call of `onFault`.
   */
  close(reason: string): void {
    if (this.#closed) return
    const { lines, commit } = this.#policy.close()
    this.#outage.addPending(lines)
    if (this.#notes === undefined) this.#outage.addStop(reason)
    const { left, error } = this.#outage.end()
    this.#closed = true
    if (left > 0)
      this.#options.onFault(new Error(`${left} audit records could not be written before the end`))
    if (this.#notes === undefined) this.#closeFile()
    else if (this.#notes.count === 0) this.#notes.release()
    this.#lock?.release()
    commit.finish(error)
  }

  /**
   * Settles what a dead thread left: gives up its lock, cuts off the line it was writing, and writes a `recovered` response
   * for each request that it had open. Call it in the thread that opened the trail, once the other has ended; if that one
   * held the lock, no thread can write before this.
   *
   * @param thread its `threadId`.
   * @returns how many responses were written.
   */
  settleDeadWorker(thread: number): number {
    const dead = { thread, file: this.#options.file, trailFile: this.#trailFile, shared: this.#shared }
    try {
      return settleDeadWorker(dead, (line) => this.settle(recoveredRecord(line)))
    } catch (error) {
      this.#options.onFault(error as Error)
      return 0
    }
  }

  #closeFile(): void {
    try {
      this.#trailFile.sink.close()
    } catch (error) {
      this.#options.onFault(error as Error)
    }
  }
}

function seatIn(shared: SharedTrail, file: string): OpenRequestNotes {
  const seat = shared.claimSeat()
  if (seat === undefined) throw new Error(`audit file ${file} has no seat left for another thread`)
  return new OpenRequestNotes(seat)
}
