import {
  countsOf,
  openChangeOf,
  pairKeyOf,
  type RecordCounts,
  recoveredRecord,
  type StartFacts,
  startRecord,
  stopRecord,
} from '../audit-records.ts'
import type { TrailFile } from '../file/trail-file.ts'
import type { TrailListeners } from '../trail-options.ts'
import { Commit, type OnCommitted } from './commit.ts'

interface OutageOptions {
  readonly trailFile: TrailFile
  readonly listeners: TrailListeners
  readonly syncs: boolean
  readonly version: string | undefined
  readonly now: () => number
  readonly timeoutMs: number
}

type PendingStop = { readonly reason: string; readonly timestamp: string }
type MoveFacts = Pick<StartFacts, 'continues' | 'removed' | 'clockSetBackMs'>

interface CommitFault {
  readonly error: Error
  /** Lines that were written and then cut off, except those that stayed (`wholeLines`, `torn`). */
  readonly tried: readonly string[]
  readonly waiting: readonly string[]
}

/** State of a trail that cannot be written. AUDIT_STOP and AUDIT_START enclose the outage. */
export class Outage {
  readonly #options: OutageOptions
  /** Records that wait to be written, in order. A line that is partly in the file comes first. */
  #pending: (string | PendingStop)[] = []
  #hasFailed = false
  writable = true
  #ended = false
  #suspended = false
  #fault: Error | undefined = undefined
  #reported: Error | undefined
  #refused = 0
  #moved: MoveFacts | undefined = undefined
  #allWritten = new Commit()
  #sinceMs = 0
  /** Counts of lines that may be cut off again. */
  #unsynced: RecordCounts[] | undefined

  constructor(options: OutageOptions) {
    this.#options = options
    options.trailFile.onFirst = (counts) => this.written(counts)
  }

  get pending(): number {
    return this.#pending.length
  }

  get fault(): Error {
    return this.#fault ?? new Error('the audit trail cannot be written yet')
  }

  /** Writes recovered responses, then AUDIT_START. @param open number of the predecessor's open requests */
  writeFirst(recovered: readonly string[], facts: Partial<StartFacts>, open = 0): void {
    this.addPending([...recovered, this.#startLine({ ...facts, recovered: recovered.length }, open)])
    const error = this.flush()
    this.#options.trailFile.endCommit()
    if (error !== undefined) this.#pause(error)
  }

  start(error: Error): void {
    this.#report(error)
    this.#pause(error)
  }

  written(counts: RecordCounts): void {
    if (this.#unsynced !== undefined) this.#unsynced.push(counts)
    else for (const [type, count] of counts) this.#options.listeners.onRecord(type, count)
  }

  #report(error: Error): void {
    this.#hasFailed = true
    // The caller of a failed sync reports its error again.
    if (error !== this.#reported) this.#options.listeners.onFault(error)
    this.#reported = error
  }

  #pause(error: Error): void {
    if (this.writable) this.#sinceMs = performance.now()
    this.writable = false
    this.#fault = error
    this.addStop(`write failed: ${(error as NodeJS.ErrnoException).code ?? error.message}`)
  }

  /** Refuses the failed requests. A refused request whose line stays in the file gets a recovered response. */
  commitFailed({ error, tried, waiting }: CommitFault): void {
    const { torn, wholeLines } = this.#options.trailFile
    const tornLine = tried.slice(wholeLines, torn ? wholeLines + 1 : wholeLines)
    const inFile = tried.slice(0, wholeLines)
    const { refused, stranded, pending } = sortFailed([...tried, ...waiting], [...inFile, ...tornLine])
    this.written(countsOf(inFile))
    this.addPending([...tornLine, ...pending, ...stranded.map(recoveredRecord)])
    this.countRefused(refused.length)
    if (this.writable) this.start(error)
    else if (this.#ended) this.#report(error)
  }

  /** Commits lines after pending ones. The caller holds the right to commit. */
  commit(lines: readonly string[]): Error | undefined {
    if (lines.length === 0) return undefined
    const { trailFile } = this.#options
    const unwritable = this.resume()
    const error = unwritable ?? this.#allOrNothing(() => trailFile.put(lines))
    if (error === undefined) this.written(trailFile.written)
    else if (unwritable === undefined) this.commitFailed({ error, tried: lines, waiting: [] })
    else this.commitFailed({ error, tried: [], waiting: lines })
    trailFile.endCommit()
    return error
  }

  countRefused(requests: number): void {
    this.#refused += requests
  }

  addPending(lines: readonly string[]): void {
    for (const line of lines) this.#pending.push(line)
  }

  addStop(reason: string): void {
    this.#pending.push({ reason, timestamp: this.#timestamp() })
  }

  /** Writes what is pending until a line fails; with `synced` all or nothing. */
  flush(): Error | undefined {
    return this.#allOrNothing(() => this.#putPending())
  }

  moved(facts: MoveFacts): void {
    if (this.writable) this.#sinceMs = performance.now()
    // If the file of an earlier call was never written, `removed` and `clockSetBackMs` of that call still hold.
    const { removed = facts.removed, clockSetBackMs } = this.#moved ?? {}
    this.#moved = { ...facts, removed, clockSetBackMs: facts.clockSetBackMs ?? clockSetBackMs }
    this.writable = false
  }

  /** Calls back once nothing is pending, so that no crash loses what clients saw. After `timeoutMs`, gives an error. */
  whenPendingWritten(run: OnCommitted): void {
    if (this.writable) run(undefined)
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

  recheck(): boolean {
    if (this.writable || this.#ended || this.#suspended) return this.writable
    const { syncs, trailFile } = this.#options
    if (syncs && trailFile.takeCommit() !== undefined) return false
    this.resume()
    trailFile.releaseCommit()
    if (!this.writable && this.#isTooLong()) this.#finishWaiting(this.fault)
    return this.writable
  }

  /** The caller holds the right to commit. */
  resume(): Error | undefined {
    if (this.writable) return undefined
    if (!this.#ended && !this.#suspended)
      this.#fault = this.#allOrNothing(() => this.#putPending() ?? this.#putStart())
    this.writable = this.#fault === undefined
    if (this.writable) {
      // A move to another file or a failed hand-over also ends here, and was no fault.
      if (this.#hasFailed) this.#options.listeners.onWritable?.()
      this.#hasFailed = false
      this.#finishWaiting(undefined)
    }
    return this.#fault
  }

  /** Writes what is pending and an AUDIT_STOP, then nothing until `unsuspend`. */
  suspend(reason: string): Error | undefined {
    this.addStop(reason)
    const error = this.#writeLast()
    this.#suspended = true
    this.writable = false
    this.#sinceMs = performance.now()
    this.#fault = new Error('the audit trail is being handed over')
    return error
  }

  /** Appends seals after `suspend`. If they cannot be written, they are left out. */
  appendSeals(lines: readonly string[]): void {
    const { trailFile } = this.#options
    if (lines.length === 0) return
    const error = trailFile.put(lines) ?? this.#sync()
    if (error === undefined) this.written(trailFile.written)
    else this.#report(error)
  }

  unsuspend(): void {
    this.#suspended = false
  }

  /** Ends, because another process continues. That process must write `lines`. Then call `written`. */
  leave(): { readonly lines: readonly string[]; readonly written: OnCommitted } {
    const lines = this.#pending.filter((record) => typeof record === 'string')
    this.#pending = []
    this.#ended = true
    return { lines, written: (error) => this.#finishWaiting(error) }
  }

  end(): { readonly left: number; readonly error: Error | undefined } {
    // Only the seal that covers the AUDIT_STOP of `suspend` may follow it.
    const isLate =
      this.#suspended && this.#pending.length > 0 && this.#pending.every((one) => typeof one === 'string')
    const error = isLate ? this.fault : this.#writeLast()
    this.#ended = true
    this.writable = false
    this.#fault = new Error('the audit trail is closed')
    this.#finishWaiting(error)
    return { left: this.#pending.length, error }
  }

  #writeLast(): Error | undefined {
    return this.#putPending() ?? this.#sync()
  }

  #putPending(): Error | undefined {
    const { trailFile } = this.#options
    const { pid } = process
    let done = 0
    let error: Error | undefined
    for (const record of this.#pending) {
      const line = typeof record === 'string' ? record : stopRecord({ ...record, pid, open: trailFile.open })
      error = this.#put(line)
      if (error !== undefined && trailFile.torn) this.#pending[done] = line
      if (error !== undefined) break
      done++
    }
    this.#pending.splice(0, done)
    return error
  }

  #put(line: string): Error | undefined {
    const { trailFile } = this.#options
    const error = trailFile.put([line])
    if (error === undefined) this.written(trailFile.written)
    else this.#report(error)
    return error
  }

  #putStart(): Error | undefined {
    const { trailFile } = this.#options
    const line = this.#startLine({ refused: this.#refused, ...this.#moved }, trailFile.open)
    const error = this.#put(line)
    if (error === undefined) {
      this.#refused = 0
      this.#moved = undefined
    } else if (trailFile.torn) this.#pending.push(line)
    return error
  }

  /** With `synced`, commits all that `write` puts, or cuts it off again. */
  #allOrNothing(write: () => Error | undefined): Error | undefined {
    const { trailFile, syncs } = this.#options
    if (!syncs) return write()
    const start = trailFile.startCommit()
    const before = { pending: [...this.#pending], refused: this.#refused, moved: this.#moved }
    const unsynced: RecordCounts[] = []
    this.#unsynced = unsynced
    const error = write() ?? this.#sync()
    this.#unsynced = undefined
    if (error === undefined || trailFile.torn) {
      for (const counts of unsynced) this.written(counts)
      return error
    }
    trailFile.rollBackTo(start)
    this.#pending = before.pending
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
      this.#report(error as Error)
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

/** A request whose response is among the lines is not refused. @param inFile lines that stay */
function sortFailed(lines: readonly string[], inFile: readonly string[]) {
  const responses = new Map<string | undefined, number>()
  for (const line of lines) {
    if (openChangeOf(line) === -1) responses.set(pairKeyOf(line), (responses.get(pairKeyOf(line)) ?? 0) + 1)
  }
  const refused: string[] = []
  const stranded: string[] = []
  const pending: string[] = []
  const remaining = [...inFile]
  for (const line of lines) {
    const count = responses.get(pairKeyOf(line)) ?? 0
    const isInFile = takeFrom(remaining, line)
    if (openChangeOf(line) === 1 && count === 0) {
      refused.push(line)
      if (isInFile) stranded.push(line)
      continue
    }
    if (openChangeOf(line) === 1) responses.set(pairKeyOf(line), count - 1)
    if (!isInFile) pending.push(line)
  }
  return { refused, stranded, pending }
}

function takeFrom(lines: string[], line: string): boolean {
  const at = lines.indexOf(line)
  if (at !== -1) lines.splice(at, 1)
  return at !== -1
}
