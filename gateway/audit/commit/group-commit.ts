import { fdatasync } from 'node:fs'
import type { Mark, SharedState } from '../file/shared-trail.ts'
import type { Pen } from '../file/trail-file.ts'

/** Called once: with why not, when what was to be committed is not. */
export type Waiting = (error: Error | undefined) => void

/** Lines that are committed together: one for all of them, so that none needs a promise of its own. */
export class Commit {
  readonly #waiting: Waiting[] = []

  whenDone(run: Waiting): void {
    this.#waiting.push(run)
  }

  finish(error: Error | undefined): void {
    for (const run of this.#waiting.splice(0)) run(error)
  }
}

/** What is known when a group could not be committed. */
export interface CommitFault {
  readonly error: Error
  /** Lines that were tried. They are in the file no more, unless a part of them is torn. */
  readonly tried: readonly string[]
  /** Lines that were to follow. */
  readonly waiting: readonly string[]
}

export interface CommitsOptions {
  readonly pen: Pen
  readonly shared: SharedState
  /** Lines count when the disk has them (`synced`), not as soon as the operating system has (`written`). */
  readonly syncs: boolean
  /** Called before a write, with the turn if it `syncs`: why nothing can be written now. */
  mend(): Error | undefined
  onCommitted(lines: readonly string[]): void
  /** Before those who wait for the lines hear of it. */
  onFailed(fault: CommitFault): void
}

interface Group {
  readonly lines: readonly string[]
  readonly commit: Commit
}

/**
 * Lines gather until the turn of the event loop is over, and go to the operating system by one write; with `written`
 * that commits them.
 *
 * With `synced` they are committed by one `fdatasync` in the thread pool; what comes meanwhile is the next group. Among
 * several threads one at a time has the turn to write and commit, so that what is not committed is always the end of the
 * file and can be cut off: after a failed `fdatasync` the kernel may have thrown pages away, and the next one would say
 * that all is well.
 */
export class Commits {
  readonly #options: CommitsOptions
  readonly #onTurnEnd = () => this.#begin()
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
  take(): Group {
    const taken = { lines: this.#lines, commit: this.#next }
    this.#lines = []
    this.#next = new Commit()
    return taken
  }

  /** `written`: commits what has gathered, now. */
  flush(): void {
    if (this.#lines.length === 0) return
    const unwritable = this.#options.mend()
    const group = this.take()
    const error = unwritable ?? this.#options.pen.put(group.lines)
    if (error === undefined) this.#succeed(group)
    else this.#fail(error, group, unwritable === undefined)
  }

  #schedule(): void {
    if (this.#scheduled || this.#running || this.#lines.length === 0) return
    this.#scheduled = true
    setImmediate(this.#onTurnEnd)
  }

  #begin(): void {
    this.#scheduled = false
    if (!this.#options.syncs) this.flush()
    else if (this.#lines.length > 0) this.#beginSync()
  }

  #beginSync(): void {
    const { pen, shared, mend } = this.#options
    if (!shared.takeTurn()) {
      this.#scheduled = true
      void shared.turnFreed().then(this.#onTurnEnd)
      return
    }
    const unwritable = mend()
    const mark = unwritable === undefined ? pen.markTurn() : undefined
    const group = this.take()
    const error = mark === undefined ? (unwritable ?? heldTooLong()) : pen.put(group.lines)
    if (error !== undefined || mark === undefined) {
      shared.passTurn()
      this.#fail(error as Error, group, unwritable === undefined)
      return
    }
    this.#running = true
    fdatasync(pen.sink.fd, (failed) => this.#endSync(failed, group, mark))
  }

  #endSync(error: Error | null, group: Group, mark: Mark): void {
    const { pen, shared } = this.#options
    this.#running = false
    if (error !== null) pen.backTo(mark, group.lines)
    shared.passTurn()
    if (error !== null) {
      this.#fail(error, group, true)
      return
    }
    pen.committed(group.lines)
    this.#succeed(group)
    this.#schedule()
  }

  #succeed({ lines, commit }: Group): void {
    this.#options.onCommitted(lines)
    commit.finish(undefined)
  }

  #fail(error: Error, { lines, commit }: Group, wasTried: boolean): void {
    const next = this.take()
    const fault = wasTried
      ? { error, tried: lines, waiting: next.lines }
      : { error, tried: [], waiting: [...lines, ...next.lines] }
    this.#options.onFailed(fault)
    commit.finish(error)
    next.commit.finish(error)
  }
}

/** Whoever has held the file for so long may be dead, and is not waited for. */
export function heldTooLong(): Error {
  return new Error('another thread has held the audit file for too long')
}
