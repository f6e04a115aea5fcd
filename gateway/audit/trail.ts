import { setTimeout as afterMs } from 'node:timers/promises'
import { syncDirectoryOf } from '../storage/append-file.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { cutTornLine } from '../storage/torn-line.ts'
import type { StartFacts } from './audit-records.ts'
import type { Commit, CommitPolicy, OnCommitted } from './commit/commit.ts'
import { BufferedCommit, GroupCommit } from './commit/group-commit.ts'
import { Outage } from './commit/outage.ts'
import { ForeignWriters } from './file/foreign-writers.ts'
import { type FileEnd, type FilePlace, TrailFile, type TrailSeals } from './file/trail-file.ts'
import { STANDARD_OUTPUT, TrailSink } from './file/trail-sink.ts'
import type { Recovery } from './recovery/recovery.ts'
import { type ForeignWrite, foreignRecord } from './seal-records.ts'
import { type TrailOptions, TrailReports } from './trail-reports.ts'

/** Shorter than the timeout of clients and most proxies. */
const RESPONSE_TIMEOUT_MS = 5000

/**
 * The audit trail: a file of lines, which this process alone writes.
 *
 * `append` is for what can still be refused: either the whole line is in the file, or the caller refuses the request.
 * `settle` is for what has already happened: a line that cannot be written now stays pending and is written before any
 * later one. Pending lines are responses of requests in flight, so their number is bounded.
 *
 * A line goes to the commit policy, and what that cannot write to the outage, which writes it later. None calls one before it.
 * `written`: the lines of a turn of the event loop are handed to the operating system by one `write` at its end, all of
 * them or none. `synced`: the disk has them too. `buffered`: lines wait in memory for 5 ms or 64 KiB; a crash loses those.
 *
 * A torn line is always the last one of the file: what a failed write left is cut off. Where that cannot be done (standard
 * output, an append-only file) the rest of the line is written first.
 *
 * After an outage the trail holds an AUDIT_STOP with the reason and an AUDIT_START with the number of requests refused, after
 * a rotation too, at the end of one file and the beginning of the next. Both count the open requests for recovery.
 *
 * Standard output: a full non-blocking pipe is given 50 ms, then the trail is unwritable until `recheck` finds room; a full
 * blocking pipe stops the whole gateway; nothing is recovered at the next start.
 */
export class Trail {
  readonly #options: TrailOptions
  #lock: ProcessLock | undefined
  readonly #trailFile: TrailFile
  readonly #outage: Outage
  readonly #foreign: ForeignWriters
  readonly #policy: CommitPolicy
  #closed = false
  #suspended = false
  /** The other process has failed. */
  #wantsBack = false
  #seals: TrailSeals | undefined
  /** Writes records in place of this process. */
  #successor: ((lines: readonly string[]) => Commit) | undefined

  /** Opens the file; writes nothing. Use `openTrail`. @throws Error that names the file, when it cannot be opened. */
  constructor(options: TrailOptions) {
    this.#options = options
    const { file, durability, version, now = Date.now, timeoutMs = RESPONSE_TIMEOUT_MS, lock } = options
    const syncs = durability === 'synced'
    const reports = new TrailReports(options)
    const trailFile = new TrailFile(TrailSink.open(file), options.isSealed)
    const outage = new Outage({ trailFile, reports, syncs, version, now, timeoutMs })
    this.#lock = lock
    this.#trailFile = trailFile
    this.#outage = outage
    this.#foreign = new ForeignWriters({ ...options, trailFile, now })
    this.#policy =
      durability === 'buffered'
        ? new BufferedCommit({ trailFile, outage, reports })
        : new GroupCommit({ trailFile, outage, reports, syncs })
  }

  /** `false` from a write that failed until one succeeds again, and after `close`. */
  get writable(): boolean {
    return this.#outage.writable
  }

  get uncommittedRecords(): number {
    return this.#policy.uncommitted + this.#outage.pending
  }

  get file(): string {
    return this.#options.file
  }

  /** The file in use, its end, and the requests open there. */
  present(): FileEnd & FilePlace {
    return this.#trailFile.present()
  }

  /** The place up to which its seals have been handed the lines of the file in use. */
  get told(): FilePlace {
    return this.#trailFile.told
  }

  /** Seals the lines that are written from now on, with `isSealed` those since it was opened. */
  sealWith(seals: TrailSeals): void {
    this.#seals = seals
    this.#trailFile.follow(seals)
  }

  /** Inode of the file in use; undefined when it is not ours to rotate, or not now. */
  get inode(): string | undefined {
    const isOurs = !this.#closed && !this.#suspended
    return isOurs && this.#options.file !== STANDARD_OUTPUT ? this.#trailFile.sink.inode : undefined
  }

  /** Writes the first lines: the responses that recovery found missing, then AUDIT_START. */
  begin({ records, ...found }: Recovery & Partial<StartFacts>): this {
    this.#trailFile.open = records.length
    this.#outage.writeFirst(records, { ...found, locked: this.#lock?.held })
    return this
  }

  /** The same while the process before still has the open requests in flight: it will send their responses. */
  beginAfter({ records, ...found }: Recovery & Partial<StartFacts>): this {
    this.#trailFile.open = records.length
    this.#outage.writeFirst([], { ...found, locked: this.#lock?.held }, records.length)
    return this
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
    if (this.#successor !== undefined) return this.#successor([record])
    if (this.recheck()) return this.#policy.add(record)
    this.#outage.addPending([record])
    return undefined
  }

  /** Calls back when no record is pending, or with an error when that takes too long. `buffered`: at once. */
  whenPendingWritten(run: OnCommitted): void {
    if (this.#options.durability === 'buffered') run(undefined)
    else this.#outage.whenPendingWritten(run)
  }

  /** To be called once a second: tries again what could not be written, and replaces a file or lock that was removed. */
  maintain(): void {
    if (this.#suspended) {
      if (this.#wantsBack) this.goOn()
      return
    }
    if (!this.#closed && !this.#trailFile.isCommitting) {
      this.#foreign.find()
      this.#replaceRemoved()
    }
    this.recheck()
  }

  /** Others have written to the file before this one. */
  sayForeign(what: ForeignWrite): void {
    const { now = Date.now, onForeign } = this.#options
    this.settle(foreignRecord(new Date(now()).toISOString(), what))
    onForeign?.(what)
  }

  #replaceRemoved(): void {
    const { file, onFault } = this.#options
    if (this.#trailFile.sink.isRemoved) {
      onFault(new Error(`audit file ${file} was removed while it was written: it is begun anew`))
      this.reopen()
    }
    try {
      this.#lock = this.#lock?.renewed()
    } catch (error) {
      onFault(error as Error)
    }
  }

  /** Tries to write again after a failed write; costs nothing otherwise. For new requests, and /readyz. @returns `writable` */
  recheck(): boolean {
    return this.#outage.recheck()
  }

  /**
   * Goes on in a new file of the same name, after the present one was renamed (SIGHUP). If it cannot be opened, `onFault` is
   * called and the trail stays in the old one. @param clockSetBackMs what the new one says of the old
   */
  reopen(clockSetBackMs?: number): void {
    const { file, durability } = this.#options
    const [trailFile, outage, syncs] = [this.#trailFile, this.#outage, durability === 'synced']
    if (this.#closed || this.#suspended || file === STANDARD_OUTPUT) return
    const freed = trailFile.takeCommit()
    if (freed !== undefined) {
      void freed.then(() => this.reopen(clockSetBackMs))
      return
    }
    this.#policy.flush()
    trailFile.endCommit()
    this.#foreign.find()
    try {
      rotate({ file, trailFile, outage, syncs, clockSetBackMs })
    } catch (error) {
      this.#options.onFault(error as Error)
    }
    trailFile.releaseCommit()
    this.recheck()
  }

  /**
   * Stops writing, with AUDIT_STOP, and gives up the lock, so that another process can go on. Until `goOn` or `leaveTo`
   * requests cannot be recorded, and what has happened stays pending.
   * @returns why it could not be; it then goes on
   */
  async suspend(reason: string): Promise<Error | undefined> {
    const error = await this.#stop(reason)
    if (!this.#suspended) return error
    this.#lock?.release()
    if (error !== undefined) this.goOn()
    return error
  }

  /** Writes AUDIT_STOP and then, behind it, the last seal. @returns why it could not be. */
  async #stop(reason: string): Promise<Error | undefined> {
    const { timeoutMs = RESPONSE_TIMEOUT_MS } = this.#options
    const untilMs = performance.now() + timeoutMs
    const trailFile = this.#trailFile
    for (let freed = trailFile.takeCommit(); freed !== undefined; freed = trailFile.takeCommit()) {
      if (performance.now() >= untilMs) return new Error('the disk has not taken the last records in time')
      await Promise.race([freed, afterMs(untilMs - performance.now())])
    }
    const { lines, commit } = this.#policy.close()
    const failed = this.#outage.commit(lines)
    const error = this.#outage.suspend(reason) ?? failed
    this.#suspended = true
    commit.finish(failed)
    trailFile.endCommit()
    const seals = await this.#seals?.finish()
    trailFile.unfollow()
    if (error === undefined && seals !== undefined) this.#outage.appendSeals(seals)
    trailFile.releaseCommit()
    return error
  }

  /** Goes on after `suspend`. If it cannot have the lock, `maintain` tries again. */
  goOn(): void {
    const { file, onFault } = this.#options
    if (!this.#suspended) return
    this.#wantsBack = true
    try {
      // Standard output and devices have no lock, and cannot be repaired.
      if (this.#lock !== undefined) {
        this.#lock = this.#lock.renewed()
        cutTornLine(file)
        // It may be the same file: another process has written to it.
        this.#trailFile.moveTo(TrailSink.open(file)).close()
      }
    } catch (error) {
      onFault(error as Error)
      return
    }
    this.#suspended = false
    this.#wantsBack = false
    this.#outage.unsuspend()
    if (this.#seals !== undefined) this.#trailFile.follow(this.#seals)
    this.recheck()
  }

  /** After `suspend`: from now on another process writes what this one has to settle. It gets what is pending first. */
  leaveTo(successor: (lines: readonly string[]) => Commit): void {
    this.#successor = successor
    const { lines, written } = this.#outage.leave()
    successor(lines).whenDone(written)
  }

  /** Ends a trail as `close` does, with the last seal behind AUDIT_STOP. */
  async end(reason: string): Promise<void> {
    if (this.#seals !== undefined && !this.#closed && !this.#suspended) await this.#stop(reason)
    this.close(reason)
  }

  /** Ends the trail with AUDIT_STOP. Counts for `onFault` what could not be written. */
  close(reason: string): void {
    if (this.#closed) return
    const { lines, commit } = this.#policy.close()
    this.#outage.addPending(lines)
    if (!this.#suspended) this.#outage.addStop(reason)
    const { left, error } = this.#outage.end()
    this.#closed = true
    if (left > 0)
      this.#options.onFault(new Error(`${left} audit records could not be written before the end`))
    this.#closeFile()
    this.#lock?.release()
    commit.finish(error)
  }

  #closeFile(): void {
    try {
      this.#trailFile.close()
    } catch (error) {
      this.#options.onFault(error as Error)
    }
  }
}

interface RotateOptions {
  readonly file: string
  readonly trailFile: TrailFile
  readonly outage: Outage
  /** `synced`: the caller has the right to commit, and the old file is synced. */
  readonly syncs: boolean
  /** The clock was set back while the old file was written. */
  readonly clockSetBackMs?: number | undefined
}

/**
 * Goes on in a new file of the same name, if the present one has been renamed. The old one ends with AUDIT_STOP; the new
 * one begins with AUDIT_START at the next `Outage.resume`. Lines that the old file did not take go to the new one whole.
 *
 * @throws Error that names the file, when it cannot be opened or its name cannot be synced, and the old one is kept; or the
 * system's, when the old one could not be synced or closed.
 */
function rotate(options: RotateOptions): void {
  const { file, trailFile, outage, syncs, clockSetBackMs } = options
  const next = TrailSink.open(file)
  const { device, inode, isRemoved } = trailFile.sink
  if (next.device === device && next.inode === inode) {
    next.close()
    return
  }
  if (syncs) syncName(file, next)
  if (syncs ? outage.writable : outage.recheck()) {
    outage.addStop(isRemoved ? 'removed' : 'rotated')
    outage.flush()
  }
  const old = trailFile.moveTo(next)
  outage.moved({ continues: inode, removed: isRemoved || undefined, clockSetBackMs })
  try {
    if (syncs) old.sync()
  } finally {
    old.close()
  }
}

/** Before anything is committed to it: a power cut could take the whole file otherwise. */
function syncName(file: string, next: TrailSink): void {
  try {
    syncDirectoryOf(file)
  } catch (error) {
    next.close()
    throw error
  }
}
