import { fdatasync } from 'node:fs'
import type { Pen } from './pen.ts'
import type { Point, SharedState } from './shared.ts'

/** Called once: with why not, when what was to be committed is not. */
type Waiting = (error: Error | undefined) => void

/** Lines that go to the disk together: one for all of them, so that none needs a promise of its own. */
export class Commit {
  readonly #waiting: Waiting[] = []

  whenDone(run: Waiting): void {
    this.#waiting.push(run)
  }

  finish(error: Error | undefined): void {
    for (const run of this.#waiting.splice(0)) run(error)
  }
}

/** What is known when the disk has refused. */
export interface CommitFault {
  readonly error: Error
  /** Lines that had been written. They are in the file no more, unless a part of them is torn. */
  readonly written: readonly string[]
  /** Lines that were to follow. */
  readonly waiting: readonly string[]
}

export interface CommitsOptions {
  readonly pen: Pen
  readonly shared: SharedState
  onCommitted(lines: readonly string[]): void
  /** Before those who wait for the lines hear of it. */
  onFailed(fault: CommitFault): void
}

/**
 * Durability `synced`. Lines gather until the turn of the event loop is over and the disk is free, are written at once,
 * and are committed by one `fdatasync` in the thread pool; what comes meanwhile is the next group. Among several threads
 * one at a time has the turn to write and commit, so that what is not committed is always the end of the file and can be
 * cut off: after a failed `fdatasync` the kernel may have thrown pages away, and the next one would say that all is well.
 */
export class Commits {
  readonly #options: CommitsOptions
  #lines: string[] = []
  #next = new Commit()
  #scheduled = false
  #running = false

  constructor(options: CommitsOptions) {
    this.#options = options
  }

  add(line: string): Commit {
    this.#lines.push(line)
    this.#schedule()
    return this.#next
  }

  /** What has not been written yet, and whoever waits for it. */
  take(): { readonly lines: readonly string[]; readonly commit: Commit } {
    const taken = { lines: this.#lines, commit: this.#next }
    this.#lines = []
    this.#next = new Commit()
    return taken
  }

  #schedule(): void {
    if (this.#scheduled || this.#running || this.#lines.length === 0) return
    this.#scheduled = true
    setImmediate(() => this.#begin())
  }

  #begin(): void {
    this.#scheduled = false
    if (this.#lines.length === 0) return
    const { pen, shared } = this.#options
    if (!shared.takeTurn()) {
      this.#scheduled = true
      void shared.turnFreed().then(() => this.#begin())
      return
    }
    const point = pen.markTurn()
    const { lines, commit } = this.take()
    const error =
      point === undefined ? new Error('another thread has held the audit file for too long') : pen.put(lines)
    if (error !== undefined || point === undefined) {
      shared.passTurn()
      this.#fail(error as Error, { lines, commit })
      return
    }
    this.#running = true
    fdatasync(pen.sink.fd, (failed) => this.#end(failed, { lines, commit, point }))
  }

  #end(
    error: Error | null,
    group: { readonly lines: readonly string[]; readonly commit: Commit; readonly point: Point },
  ): void {
    const { pen, shared, onCommitted } = this.#options
    this.#running = false
    if (error !== null) pen.backTo(group.point, group.lines)
    shared.passTurn()
    if (error !== null) {
      this.#fail(error, group)
      return
    }
    pen.committed(group.lines)
    onCommitted(group.lines)
    group.commit.finish(undefined)
    this.#schedule()
  }

  #fail(
    error: Error,
    { lines, commit }: { readonly lines: readonly string[]; readonly commit: Commit },
  ): void {
    const waiting = this.take()
    this.#options.onFailed({ error, written: lines, waiting: waiting.lines })
    commit.finish(error)
    waiting.commit.finish(error)
  }
}
