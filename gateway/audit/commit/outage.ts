import { type StartFacts, startRecord } from '../audit-records.ts'
import type { SharedState } from '../file/shared-trail.ts'
import type { Pen } from '../file/trail-file.ts'
import { Commit, heldTooLong, type Waiting } from './group-commit.ts'
import { Owed } from './pending-records.ts'

export interface PausesOptions {
  readonly pen: Pen
  readonly shared: SharedState
  /** What is written counts only when the disk has it: `synced`. */
  readonly syncs: boolean
  /** Of the gateway, for AUDIT_START. */
  readonly version: string | undefined
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** How long responses wait for records that cannot be written, milliseconds. */
  readonly patienceMs: number
  /** Lines that are in the file for good, or why they are not. */
  onPut(lines: readonly string[], error: Error | undefined): void
}

/**
 * The times in which a trail cannot be written: what it owes meanwhile, and the AUDIT_STOP and AUDIT_START that tell of
 * them afterwards. What is owed is written, in its order, before anything else.
 */
export class Pauses {
  readonly #options: PausesOptions
  readonly #owed: Owed
  #writable = true
  #ended = false
  /** Why the trail cannot be written, when that is known. */
  #fault: Error | undefined = undefined
  /** Requests, since the trail became unwritable. */
  #refused = 0
  /** Inode of the file before, until AUDIT_START stands in the new one. */
  #continues: string | undefined = undefined
  /** The file before was removed, until AUDIT_START says so in the new one. */
  #removed = false
  /** For those who wait until nothing is owed. */
  #paid = new Commit()
  /** Since when the trail cannot be written, on the steady clock. */
  #sinceMs = 0

  constructor(options: PausesOptions) {
    const { pen, onPut } = options
    this.#options = options
    this.#owed = new Owed({ pen, onPut })
  }

  get writable(): boolean {
    return this.#writable
  }

  get fault(): Error {
    return this.#fault ?? new Error('the audit trail is being mended')
  }

  /** First of all: the responses that recovery found missing, then AUDIT_START. */
  begin(recovered: readonly string[], facts: Partial<StartFacts>): void {
    this.owe([...recovered, this.#start({ ...facts, recovered: recovered.length }, 0)])
    const error = this.#orNothing(() => this.#owed.flush())
    if (error !== undefined) this.pause(error)
  }

  /** The trail cannot be written from now on. */
  pause(error: Error): void {
    if (this.#writable) this.#sinceMs = performance.now()
    this.#writable = false
    this.#fault = error
    this.stop(`write failed: ${(error as NodeJS.ErrnoException).code ?? error.message}`)
  }

  /** A request is refused because it cannot be recorded. */
  countRefused(requests: number): void {
    this.#refused += requests
  }

  /** Lines to be written, in their order, before anything else. The first must be the torn one, if there is one. */
  owe(lines: readonly string[]): void {
    for (const line of lines) this.#owed.add(line)
  }

  /** An AUDIT_STOP, after what is owed. */
  stop(reason: string): void {
    this.#owed.add({ reason, timestamp: this.#timestamp() })
  }

  /** Writes what is owed, as far as it goes in. @returns why the first of the rest did not. */
  flush(): Error | undefined {
    return this.#owed.flush()
  }

  /** The trail goes on in a new file, which begins with AUDIT_START. */
  moved({ continues, removed }: { readonly continues: string; readonly removed: boolean }): void {
    if (this.#writable) this.#sinceMs = performance.now()
    this.#continues = continues
    this.#removed ||= removed
    this.#writable = false
  }

  /**
   * Calls back when everything that is owed now has been written; with an error when it will not be, or not soon: what a
   * client has seen must not be missing after a crash.
   */
  whenPaid(run: Waiting): void {
    if (this.#writable) run(undefined)
    else if (this.#ended || this.#isTooLong()) run(this.fault)
    else this.#paid.whenDone(run)
  }

  #isTooLong(): boolean {
    return performance.now() - this.#sinceMs >= this.#options.patienceMs
  }

  #finishPaid(error: Error | undefined): void {
    const paid = this.#paid
    this.#paid = new Commit()
    paid.finish(error)
  }

  /** Tries to end the pause, if there is one. @returns `writable` as it is afterwards. */
  recheck(): boolean {
    if (this.#writable || this.#ended) return this.#writable
    const { syncs, shared } = this.#options
    if (syncs && !shared.takeTurn()) return false
    this.mend()
    shared.passTurn()
    if (!this.#writable && this.#isTooLong()) this.#finishPaid(this.fault)
    return this.#writable
  }

  /** The same, with the turn where it `syncs`. @returns why the trail cannot be written even now. */
  mend(): Error | undefined {
    if (this.#writable) return undefined
    if (!this.#ended) this.#fault = this.#orNothing(() => this.#owed.flush() ?? this.#resume())
    this.#writable = this.#fault === undefined
    if (this.#writable) this.#finishPaid(undefined)
    return this.#fault
  }

  /** Writes what is owed for the last time. @returns how many lines did not go in, and why. */
  end(): { readonly left: number; readonly error: Error | undefined } {
    const error = this.#owed.flush() ?? this.#sync()
    this.#ended = true
    this.#writable = false
    this.#fault = new Error('the audit trail is closed')
    this.#finishPaid(error)
    return { left: this.#owed.lines, error }
  }

  #resume(): Error | undefined {
    const { pen, onPut } = this.#options
    const removed = this.#removed ? (true as const) : undefined
    const facts = { refused: this.#refused, continues: this.#continues, removed }
    const { line, error } = pen.putMark((open) => this.#start(facts, open))
    onPut([line], error)
    if (error === undefined) {
      this.#refused = 0
      this.#continues = undefined
      this.#removed = false
    } else if (pen.torn) this.#owed.add(line)
    return error
  }

  /** Where it `syncs`, all of it is committed or nothing is written, for the rest might be lost. */
  #orNothing(write: () => Error | undefined): Error | undefined {
    const { pen, syncs } = this.#options
    if (!syncs) return write()
    const mark = pen.markTurn()
    if (mark === undefined) return heldTooLong()
    const before = {
      owed: this.#owed.copy(),
      refused: this.#refused,
      continues: this.#continues,
      removed: this.#removed,
    }
    const error = write() ?? this.#sync()
    const lines = before.owed.filter((item) => typeof item === 'string')
    if (error === undefined) pen.committed(lines)
    if (error === undefined || pen.torn) return error
    pen.backTo(mark, lines)
    this.#owed.restore(before.owed)
    this.#refused = before.refused
    this.#continues = before.continues
    this.#removed = before.removed
    return error
  }

  #sync(): Error | undefined {
    if (!this.#options.syncs) return undefined
    try {
      this.#options.pen.sink.sync()
      return undefined
    } catch (error) {
      this.#options.onPut([], error as Error)
      return error as Error
    }
  }

  #start(facts: Partial<StartFacts>, open: number): string {
    const { version } = this.#options
    return startRecord({ ...facts, timestamp: this.#timestamp(), pid: process.pid, open, version })
  }

  #timestamp(): string {
    return new Date(this.#options.now()).toISOString()
  }
}
