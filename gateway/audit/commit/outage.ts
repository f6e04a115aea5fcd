import { recoveredRecord, type StartFacts, startRecord } from '../audit-records.ts'
import type { TrailFile } from '../file/trail-file.ts'
import type { TrailReports } from '../trail-reports.ts'
import { Commit, type OnCommitted } from './commit.ts'
import { PendingRecords, sortFailed } from './pending-records.ts'

interface OutageOptions {
  readonly trailFile: TrailFile
  readonly reports: TrailReports
  readonly syncs: boolean
  readonly version: string | undefined
  readonly now: () => number
  readonly timeoutMs: number
}

type MoveFacts = Pick<StartFacts, 'continues' | 'removed' | 'clockSetBackMs'>

interface CommitFault {
  readonly error: Error
  /** Written lines. They have been cut off again, except for those that `TrailFile` says stayed. */
  readonly tried: readonly string[]
  readonly waiting: readonly string[]
}

/**
 * State of a trail that cannot be written: responses stay pending and are written first, in order, later. An AUDIT_STOP and an
 * AUDIT_START enclose the outage.
 */
export class Outage {
  readonly #options: OutageOptions
  readonly #pending: PendingRecords
  #writable = true
  #ended = false
  /** Another process has the file. */
  #suspended = false
  #fault: Error | undefined = undefined
  #refused = 0
  /** Facts of the file before, for AUDIT_START. */
  #moved: MoveFacts | undefined = undefined
  #allWritten = new Commit()
  /** When the outage began, by `performance.now()`. */
  #sinceMs = 0

  constructor(options: OutageOptions) {
    const { trailFile, reports } = options
    this.#options = options
    this.#pending = new PendingRecords(trailFile, reports)
  }

  get writable(): boolean {
    return this.#writable
  }

  get pending(): number {
    return this.#pending.count
  }

  get fault(): Error {
    return this.#fault ?? new Error('the audit trail cannot be written yet')
  }

  /** Writes the first lines: the responses that recovery found missing, then AUDIT_START. @param open requests of another process */
  writeFirst(recovered: readonly string[], facts: Partial<StartFacts>, open = 0): void {
    this.addPending([...recovered, this.#startLine({ ...facts, recovered: recovered.length }, open)])
    const error = this.#allOrNothing(() => this.#pending.flush())
    this.#options.trailFile.endCommit()
    if (error !== undefined) this.#pause(error)
  }

  start(error: Error): void {
    this.#options.reports.fault(error)
    this.#pause(error)
  }

  #pause(error: Error): void {
    if (this.#writable) this.#sinceMs = performance.now()
    this.#writable = false
    this.#fault = error
    this.addStop(`write failed: ${(error as NodeJS.ErrnoException).code ?? error.message}`)
  }

  /** Requests are refused, responses stay pending. A request whose line stayed in the file gets a recovered response. */
  commitFailed({ error, tried, waiting }: CommitFault): void {
    const { trailFile, reports } = this.#options
    const { torn, wholeLines } = trailFile
    const tornLine = tried.slice(wholeLines, torn ? wholeLines + 1 : wholeLines)
    const inFile = tried.slice(0, wholeLines)
    const { refused, stranded, pending } = sortFailed([...tried, ...waiting], [...inFile, ...tornLine])
    reports.written(inFile)
    this.addPending([...tornLine, ...pending, ...stranded.map(recoveredRecord)])
    this.countRefused(refused.length)
    if (this.#writable) this.start(error)
    else if (this.#ended) reports.fault(error)
  }

  /** For the holder of the right to commit: commits a group after what is pending. @returns why that failed; it is then sorted */
  commit(lines: readonly string[]): Error | undefined {
    if (lines.length === 0) return undefined
    const { trailFile, reports } = this.#options
    const unwritable = this.resume()
    const error = unwritable ?? this.#allOrNothing(() => trailFile.put(lines))
    if (error === undefined) reports.written(lines)
    else if (unwritable === undefined) this.commitFailed({ error, tried: lines, waiting: [] })
    else this.commitFailed({ error, tried: [], waiting: lines })
    trailFile.endCommit()
    return error
  }

  countRefused(requests: number): void {
    this.#refused += requests
  }

  /** The first must be the torn line, if there is one. */
  addPending(lines: readonly string[]): void {
    for (const line of lines) this.#pending.add(line)
  }

  addStop(reason: string): void {
    this.#pending.add({ reason, timestamp: this.#timestamp() })
  }

  /** Writes what is pending until a line fails; with `synced` all of it or nothing. @returns why it failed */
  flush(): Error | undefined {
    return this.#allOrNothing(() => this.#pending.flush())
  }

  /** The trail goes on in a new file, whose first line is AUDIT_START. */
  moved(facts: MoveFacts): void {
    if (this.#writable) this.#sinceMs = performance.now()
    // Twice, if the file between was never written.
    const { removed = facts.removed, clockSetBackMs } = this.#moved ?? {}
    this.#moved = { ...facts, removed, clockSetBackMs: facts.clockSetBackMs ?? clockSetBackMs }
    this.#writable = false
  }

  /** Calls back when nothing is pending, or with an error after `timeoutMs`: a crash must not take what a client has seen. */
  whenPendingWritten(run: OnCommitted): void {
    if (this.#writable) run(undefined)
    else if (this.#ended || this.#isTooLong()) run(this.fault)
    else this.#allWritten.whenDone(run)
  }

  #isTooLong(): boolean {
    return performance.now() - this.#sinceMs >= this.#options.timeoutMs
  }

  #finishWaiting(error: Error | undefined): void {
    const waiting = this.#allWritten
    this.#allWritten = new Commit()
    waiting.finish(error)
  }

  /** Tries to end the outage, if there is one. @returns `writable` afterwards */
  recheck(): boolean {
    if (this.#writable || this.#ended || this.#suspended) return this.#writable
    const { syncs, trailFile } = this.#options
    if (syncs && trailFile.takeCommit() !== undefined) return false
    this.resume()
    trailFile.releaseCommit()
    if (!this.#writable && this.#isTooLong()) this.#finishWaiting(this.fault)
    return this.#writable
  }

  /** As `recheck`, for the holder of the right to commit. @returns why the trail still cannot be written */
  resume(): Error | undefined {
    if (this.#writable) return undefined
    if (!this.#ended && !this.#suspended)
      this.#fault = this.#allOrNothing(() => this.#pending.flush() ?? this.#putStart())
    this.#writable = this.#fault === undefined
    if (this.#writable) {
      this.#options.reports.writable()
      this.#finishWaiting(undefined)
    }
    return this.#fault
  }

  /** Writes what is pending and an AUDIT_STOP, then nothing until `unsuspend`. @returns why that failed */
  suspend(reason: string): Error | undefined {
    this.addStop(reason)
    const error = this.#writeLast()
    this.#suspended = true
    this.#writable = false
    this.#sinceMs = performance.now()
    this.#fault = new Error('the audit trail is being handed over')
    return error
  }

  /** After `suspend`: seals over all that has been written. A seal that cannot be written is only missing. */
  appendSeals(lines: readonly string[]): void {
    const { trailFile, reports } = this.#options
    if (lines.length === 0 || trailFile.torn) return
    reports.attempted(lines, trailFile.put(lines) ?? this.#sync())
  }

  unsuspend(): void {
    this.#suspended = false
  }

  /** Ends for a trail that another process continues. @returns what it must write, and who waits for that */
  leave(): { readonly lines: readonly string[]; readonly written: OnCommitted } {
    const lines = this.#pending.copy().filter((record) => typeof record === 'string')
    this.#pending.restore([])
    this.#ended = true
    return { lines, written: (error) => this.#finishWaiting(error) }
  }

  end(): { readonly left: number; readonly error: Error | undefined } {
    const error = this.#writeLast()
    this.#ended = true
    this.#writable = false
    this.#fault = new Error('the audit trail is closed')
    this.#finishWaiting(error)
    return { left: this.#pending.count, error }
  }

  #writeLast(): Error | undefined {
    return this.#pending.flush() ?? this.#sync()
  }

  #putStart(): Error | undefined {
    const { trailFile, reports } = this.#options
    const facts = { refused: this.#refused, ...this.#moved }
    const line = this.#startLine(facts, trailFile.open)
    const error = trailFile.put([line])
    reports.attempted([line], error)
    if (error === undefined) {
      this.#refused = 0
      this.#moved = undefined
    } else if (trailFile.torn) this.#pending.add(line)
    return error
  }

  /** With `synced`: commits all that `write` puts, or cuts it off again. */
  #allOrNothing(write: () => Error | undefined): Error | undefined {
    const { trailFile, syncs } = this.#options
    if (!syncs) return write()
    const start = trailFile.startCommit()
    const before = { pending: this.#pending.copy(), refused: this.#refused, moved: this.#moved }
    const error = write() ?? this.#sync()
    if (error === undefined || trailFile.torn) return error
    trailFile.rollBackTo(start)
    this.#pending.restore(before.pending)
    this.#refused = before.refused
    this.#moved = before.moved
    return error
  }

  #sync(): Error | undefined {
    if (!this.#options.syncs) return undefined
    try {
      this.#options.trailFile.sink.sync()
      return undefined
    } catch (error) {
      this.#options.reports.fault(error as Error)
      return error as Error
    }
  }

  #startLine(facts: Partial<StartFacts>, open: number): string {
    const { version } = this.#options
    return startRecord({ ...facts, timestamp: this.#timestamp(), pid: process.pid, open, version })
  }

  #timestamp(): string {
    return new Date(this.#options.now()).toISOString()
  }
}
