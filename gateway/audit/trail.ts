import { setTimeout as afterMs } from 'node:timers/promises'
import { syncDirectoryOf } from '../storage/append-file.ts'
import type { ProcessLock } from '../storage/process-lock.ts'
import { cutTornLine } from '../storage/torn-line.ts'
import { plural } from '../terminal/printable.ts'
import type { StartFacts } from './audit-records.ts'
import type { Commit, CommitPolicy, OnCommitted } from './commit/commit.ts'
import { BufferedCommit, GroupCommit } from './commit/group-commit.ts'
import { Outage } from './commit/outage.ts'
import { ForeignWriters } from './file/foreign-writers.ts'
import { type FileEnd, type FilePlace, TrailFile, type TrailSeals } from './file/trail-file.ts'
import { STANDARD_OUTPUT, TrailSink } from './file/trail-sink.ts'
import type { Recovery } from './recovery/recovery.ts'
import { type ForeignWrite, foreignRecord } from './seal-records.ts'
import type { TrailOptions } from './trail-options.ts'

/** Shorter than the timeout of clients and most proxies. */
const RESPONSE_TIMEOUT_MS = 5000

/**
 * The audit trail: a file of lines, which this process alone writes.
 * - `append` is for requests: if the line cannot be written, the caller refuses the request.
 * - `settle` is for what has happened: a line that cannot be written stays pending. Pending lines are responses of
 *   requests in flight, so their number is bounded.
 *
 * An outage or a rotation begins with AUDIT_STOP and ends with AUDIT_START. Both records tell recovery how many
 * requests are open. Where a part of a line cannot be cut off (standard output, an append-only file), the next write
 * begins with the rest. Standard output is never recovered. A full blocking pipe stops the gateway.
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
  #wantsBack = false
  #seals: TrailSeals | undefined
  /** Subjects of `settleOnce` by file, not by inode, because a new file may have the inode of a removed one. */
  readonly #recorded = new WeakMap<TrailSink, WeakSet<object>>()
  #successor: ((lines: readonly string[]) => Commit) | undefined

  /** Writes nothing. Use `openTrail`. @throws Error that names the file */
  constructor(options: TrailOptions) {
    this.#options = options
    const { file, durability, version, now = Date.now, timeoutMs = RESPONSE_TIMEOUT_MS, lock } = options
    const syncs = durability === 'synced'
    const trailFile = new TrailFile(TrailSink.open(file), options.isSealed)
    const outage = new Outage({ trailFile, listeners: options, syncs, version, now, timeoutMs })
    this.#lock = lock
    this.#trailFile = trailFile
    this.#outage = outage
    this.#foreign = new ForeignWriters({ ...options, trailFile, now })
    this.#policy =
      durability === 'buffered'
        ? new BufferedCommit({ trailFile, outage })
        : new GroupCommit({ trailFile, outage, syncs })
  }

  get writable(): boolean {
    return this.#outage.writable
  }

  get uncommittedRecords(): number {
    return this.#policy.uncommitted + this.#outage.pending
  }

  get file(): string {
    return this.#options.file
  }

  present(): FileEnd & FilePlace {
    return this.#trailFile.present()
  }

  get told(): FilePlace {
    return this.#trailFile.told
  }

  /** Seals the lines written from now on; with `isSealed`, also those written since the opening. */
  sealWith(seals: TrailSeals): void {
    this.#seals = seals
    this.#trailFile.follow(seals)
  }

  /** Undefined when the file cannot be rotated. */
  get inode(): string | undefined {
    const isOurs = !this.#closed && !this.#suspended
    return isOurs && this.#options.file !== STANDARD_OUTPUT ? this.#trailFile.sink.inode : undefined
  }

  /** @param isInherited the predecessor will send the missing responses */
  begin({ records, ...found }: Recovery & Partial<StartFacts>, isInherited = false): this {
    this.#trailFile.open = records.length
    const facts = { ...found, locked: this.#lock?.held }
    if (isInherited) this.#outage.writeFirst([], facts, records.length)
    else this.#outage.writeFirst(records, facts)
    return this
  }

  /** @returns a `Commit` to wait for; undefined: no wait (`buffered`). After an error no API_RESPONSE may follow */
  append(record: string): Error | Commit | undefined {
    if (this.recheck()) return this.#policy.add(record)
    this.#outage.countRefused(1)
    return this.#outage.fault
  }

  /** @returns a `Commit` that the client's response must wait for */
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

  /** Settles a record that each file has once. @param subject of the record, compared by identity */
  settleOnce(subject: object, record: () => string): void {
    const { sink } = this.#trailFile
    const subjects = this.#recorded.get(sink) ?? new WeakSet()
    if (subjects.has(subject)) return
    this.#recorded.set(sink, subjects.add(subject))
    this.settle(record())
  }

  /** Calls back when no record is pending, or with an error when that takes too long. */
  whenPendingWritten(run: OnCommitted): void {
    if (this.#options.durability === 'buffered') run(undefined)
    else this.#outage.whenPendingWritten(run)
  }

  /** Writes what is pending, and replaces a removed file or lock. Call it once a second. */
  maintain(): void {
    if (this.#suspended) {
      if (this.#wantsBack) this.goOn()
      return
    }
    // Under load, commits of a slow disk follow each other without a pause.
    const freed = this.#trailFile.committing
    if (freed === undefined) this.#look()
    else void freed.then(() => this.#look())
    this.recheck()
  }

  #look(): void {
    if (this.#closed || this.#suspended || this.#trailFile.committing !== undefined) return
    this.#foreign.find()
    this.#replaceRemoved()
  }

  sayForeign(what: ForeignWrite): void {
    const { now = Date.now, onForeign } = this.#options
    this.settle(foreignRecord(new Date(now()).toISOString(), what))
    onForeign?.(what)
  }

  #replaceRemoved(): void {
    const { file, onFault } = this.#options
    try {
      if (this.#trailFile.sink.isRemoved) {
        onFault(
          new Error(`audit file ${file} was removed while the gateway was writing it: a new file is begun`),
        )
        this.reopen()
      }
      this.#lock = this.#lock?.renewed()
    } catch (error) {
      onFault(error as Error)
    }
  }

  /** Tries again after a failed write. @returns `writable` */
  recheck(): boolean {
    return this.#outage.recheck()
  }

  /** Continues in a new file after a rename (SIGHUP). @param clockSetBackMs see `StartFacts` */
  reopen(clockSetBackMs?: number): void {
    const { file, onFault } = this.#options
    const trailFile = this.#trailFile
    if (this.#closed || this.#suspended || file === STANDARD_OUTPUT) return
    const freed = trailFile.takeCommit()
    if (freed !== undefined) {
      void freed.then(() => this.reopen(clockSetBackMs))
      return
    }
    this.#policy.flush()
    trailFile.endCommit()
    this.#foreign.find(true)
    try {
      this.#rotate(clockSetBackMs)
    } catch (error) {
      onFault(error as Error)
    }
    trailFile.releaseCommit()
    this.recheck()
  }

  /** The caller holds the right to commit. */
  #rotate(clockSetBackMs: number | undefined): void {
    const { file, durability } = this.#options
    const syncs = durability === 'synced'
    const next = TrailSink.open(file)
    const { device, inode, isRemoved } = this.#trailFile.sink
    if (next.device === device && next.inode === inode) {
      next.close()
      return
    }
    try {
      // Without this sync, a power cut could remove the new file.
      if (syncs) syncDirectoryOf(file)
    } catch (error) {
      next.close()
      throw error
    }
    if (syncs ? this.#outage.writable : this.#outage.recheck()) {
      this.#outage.addStop(isRemoved ? 'removed' : 'rotated')
      this.#outage.flush()
    }
    const old = this.#trailFile.moveTo(next)
    this.#outage.moved({ continues: inode, removed: isRemoved || undefined, clockSetBackMs })
    try {
      if (syncs) old.sync()
    } finally {
      old.close()
    }
  }

  /**
   * Stops writing, and gives up the lock. Until `goOn` or `leaveTo`, requests are refused and responses stay pending.
   * @returns an error when this failed. The trail then continues
   */
  async suspend(reason: string): Promise<Error | undefined> {
    const error = await this.#stop(reason)
    if (!this.#suspended) return error
    this.#lock?.release()
    if (error !== undefined) this.goOn()
    return error
  }

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

  /** Continues after `suspend`. If that fails, `maintain` tries again. */
  goOn(): void {
    const { file, onFault } = this.#options
    if (!this.#suspended) return
    this.#wantsBack = true
    try {
      // Standard output and devices have no lock.
      if (this.#lock !== undefined) {
        this.#lock = this.#lock.renewed()
        cutTornLine(file)
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

  /** Hands pending and later records to another process, after `suspend`. */
  leaveTo(successor: (lines: readonly string[]) => Commit): void {
    this.#successor = successor
    const { lines, written } = this.#outage.leave()
    successor(lines).whenDone(written)
  }

  /** Puts the last seal behind AUDIT_STOP. */
  async end(reason: string): Promise<void> {
    if (this.#seals !== undefined && !this.#closed && !this.#suspended) await this.#stop(reason)
    this.close(reason)
  }

  close(reason: string): void {
    if (this.#closed) return
    const { lines, commit } = this.#policy.close()
    this.#outage.addPending(lines)
    if (!this.#suspended) this.#outage.addStop(reason)
    const { left, error } = this.#outage.end()
    this.#closed = true
    const { onFault } = this.#options
    if (left > 0) onFault(new Error(`${plural(left, 'audit record')} could not be written before the end`))
    try {
      this.#trailFile.close()
    } catch (fault) {
      onFault(fault as Error)
    }
    this.#lock?.release()
    commit.finish(error)
  }
}
