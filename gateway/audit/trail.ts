import type { AuditLock } from './lock.ts'
import { recoveredRecord, type StartFacts, startRecord, stopRecord, typeOf } from './records.ts'
import type { Recovery } from './recovery.ts'
import { Sink, STANDARD_OUTPUT } from './sink.ts'

export interface TrailOptions {
  /** `-` is standard output. */
  readonly file: string
  /** Of the gateway, for AUDIT_START. */
  readonly version?: string
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** Released when the trail is closed. */
  readonly lock?: AuditLock
  /** Every write that failed, and every file that could not be opened. */
  onFault(error: Error): void
  /** Every record, once it has been handed to the operating system whole. */
  onRecord(type: string): void
}

/**
 * The audit trail: one line after the other, each handed to the operating system by one `write` before the call
 * returns (durability `written`), so that none is lost when the process is killed.
 *
 * Two verbs. `append` is for what can still be refused: the line is in the file whole, or it is not and the caller
 * refuses the request. `settle` is for what has already happened: a line that cannot be written now is kept, and is
 * written, in its place, before any later one. What is kept are the responses of requests that are in the file, so
 * their number is bounded by the requests in flight.
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
  #sink: Sink
  #writable = true
  #closed = false
  /** Why the trail cannot be written, when it cannot. */
  #fault: Error | undefined = undefined
  /** Lines to be written before any other, in their order; a torn one is the first. */
  readonly #pending: string[] = []
  /** Requests without their response, among the lines written and pending. */
  #open = 0
  /** Since the trail became unwritable. */
  #refused = 0
  /** Inode of the file before, until AUDIT_START stands in the new one. */
  #continues: string | undefined = undefined

  /** Opens the file and writes nothing: a gateway calls `openTrail`. @throws Error that names the file. */
  constructor(options: TrailOptions) {
    this.#options = options
    this.#sink = new Sink(options.file)
  }

  /** `false` from a write that failed until one succeeds again, and after `close`. */
  get writable(): boolean {
    return this.#writable
  }

  /** First of all: the responses that recovery found missing, then AUDIT_START. */
  begin(recovery: Recovery): void {
    const { records, cutBytes, damagedLines, unresolved } = recovery
    this.#open = records.length
    for (const record of records) this.settle(record)
    const locked = this.#options.lock?.held
    this.settle(this.#start({ recovered: records.length, cutBytes, damagedLines, unresolved, locked }))
  }

  /**
   * Writes the API_REQUEST of a request that is refused if it cannot be written.
   *
   * @returns undefined once the line has been handed to the operating system whole; otherwise why not, and then no
   * API_RESPONSE must follow.
   */
  append(record: string): Error | undefined {
    if (!this.recheck()) {
      this.#refused++
      return this.#fault
    }
    const error = this.#write(record)
    if (error === undefined) {
      this.#account(record)
      return undefined
    }
    // A part of the line is in the trail for good: then it becomes whole, and gets its other half.
    if (this.#sink.tornBytes > 0) this.#pending.push(record, recoveredRecord(record))
    this.#refused++
    this.#pause(error)
    return error
  }

  /** Writes a record of what has already happened, now or as soon as the trail can be written. */
  settle(record: string): void {
    if (this.#closed) {
      this.#options.onFault(new Error('an audit record came after the trail was closed'))
      return
    }
    const writable = this.recheck()
    // Not before: an AUDIT_START that recheck writes still counts the request as open.
    this.#account(record)
    if (!writable) {
      this.#pending.push(record)
      return
    }
    const error = this.#write(record)
    if (error === undefined) return
    this.#pending.push(record)
    this.#pause(error)
  }

  /**
   * Tries to write again after a write has failed; costs nothing as long as none has. New requests do it by themselves;
   * /readyz or a timer must, so that the trail recovers without traffic.
   *
   * @returns `writable` as it is afterwards.
   */
  recheck(): boolean {
    if (this.#writable || this.#closed) return this.#writable
    this.#fault = this.#flush() ?? this.#resume()
    this.#writable = this.#fault === undefined
    return this.#writable
  }

  /**
   * Goes on in a new file of the same name, after the present one was renamed (SIGHUP). If it cannot be opened, the
   * trail goes on in the old one, and `onFault` is told.
   */
  reopen(): void {
    if (this.#closed || this.#options.file === STANDARD_OUTPUT) return
    try {
      const next = new Sink(this.#options.file)
      const old = this.#sink.identity()
      const { device, inode } = next.identity()
      if (device === old.device && inode === old.inode) next.close()
      else this.#moveTo(next, old.inode)
    } catch (error) {
      this.#options.onFault(error as Error)
    }
    this.recheck()
  }

  /** Ends the trail with AUDIT_STOP. If even that cannot be written, `onFault` hears how many records are missing. */
  close(reason: string): void {
    if (this.#closed) return
    this.settle(this.#stop(reason))
    this.#closed = true
    this.#writable = false
    this.#fault = new Error('the audit trail is closed')
    const left = this.#pending.length
    if (left > 0)
      this.#options.onFault(new Error(`${left} audit records could not be written before the end`))
    this.#closeSink(this.#sink)
    this.#options.lock?.release()
  }

  /** Lines that the old file would not take go to the new one, whole. */
  #moveTo(next: Sink, oldInode: string): void {
    if (this.recheck()) this.settle(this.#stop('rotated'))
    const old = this.#sink
    this.#sink = next
    this.#continues = oldInode
    this.#writable = false
    this.#closeSink(old)
  }

  #closeSink(sink: Sink): void {
    try {
      sink.close()
    } catch (error) {
      this.#options.onFault(error as Error)
    }
  }

  #write(record: string): Error | undefined {
    const error = this.#sink.write(record)
    if (error === undefined) this.#options.onRecord(typeOf(record))
    else this.#options.onFault(error)
    return error
  }

  #flush(): Error | undefined {
    let error: Error | undefined
    let done = 0
    for (const record of this.#pending) {
      error = this.#write(record)
      if (error !== undefined) break
      done++
    }
    this.#pending.splice(0, done)
    return error
  }

  #resume(): Error | undefined {
    const start = this.#start({ refused: this.#refused, continues: this.#continues })
    const error = this.#write(start)
    if (error === undefined) {
      this.#refused = 0
      this.#continues = undefined
    } else if (this.#sink.tornBytes > 0) {
      this.#pending.push(start)
    }
    return error
  }

  #pause(error: Error): void {
    this.#writable = false
    this.#fault = error
    this.#pending.push(this.#stop(`write failed: ${(error as NodeJS.ErrnoException).code ?? error.message}`))
  }

  #account(record: string): void {
    const type = typeOf(record)
    if (type === 'API_REQUEST') this.#open++
    else if (type === 'API_RESPONSE') this.#open--
  }

  #start(facts: Partial<StartFacts>): string {
    return startRecord({ ...facts, ...this.#moment(), version: this.#options.version })
  }

  #stop(reason: string): string {
    return stopRecord({ ...this.#moment(), reason })
  }

  #moment(): { timestamp: string; pid: number; open: number } {
    const now = this.#options.now ?? Date.now
    return { timestamp: new Date(now()).toISOString(), pid: process.pid, open: this.#open }
  }
}
