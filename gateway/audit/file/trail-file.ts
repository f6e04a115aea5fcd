import { openChangeOf } from '../audit-records.ts'
import type { CommitStart, FileEnd, SharedTrail } from './shared-trail.ts'
import { TrailSink } from './trail-sink.ts'

/** How long to wait for the lock before a write fails. Longer than most stalls of a disk, in which its holder waits too. */
const LOCK_TIMEOUT_MS = 1000

/**
 * Writes whole lines to the file that all threads share, under their lock, and counts the open requests. What a failed
 * write left is cut off before another thread can write after it.
 */
export class TrailFile {
  readonly #shared: SharedTrail
  #sink: TrailSink
  #generation: number
  #failing = false
  #wholeLines = 0

  /** @param sink the file of `shared`, in the thread that opened it. */
  constructor(shared: SharedTrail, sink?: TrailSink) {
    this.#shared = shared
    // Before the descriptor: after a rotation between the two the file is opened anew, and never a closed one used.
    this.#generation = shared.generation
    this.#sink = sink ?? new TrailSink(shared.fd)
  }

  /** A partial line remains and could not be cut off: the next `put` must begin with the same line. */
  get torn(): boolean {
    return this.#sink.tornBytes > 0
  }

  /** How many lines of the last `put` that failed are in the file whole and stay there. */
  get wholeLines(): number {
    return this.#wholeLines
  }

  /** The file in use now. */
  get sink(): TrailSink {
    this.#follow()
    return this.#sink
  }

  /** Hands lines to the operating system by one write: all of them or none, unless `torn` (see `wholeLines`). */
  put(lines: readonly string[]): Error | undefined {
    return this.underLock(() => this.#put(lines))
  }

  /** Writes a line that holds the number of open requests before it. @returns the line too, in case it is torn. */
  putWithOpenCount(make: (open: number) => string): {
    readonly line: string
    readonly error: Error | undefined
  } {
    let line = ''
    const error = this.underLock(() => {
      line = make(this.#shared.open)
      return this.#put([line])
    })
    return { line, error }
  }

  /** Runs `work` while no other thread can write. @returns its error, or one that says who held the lock. */
  underLock(work: () => Error | undefined): Error | undefined {
    this.#wholeLines = 0
    if (!this.#shared.enter(this.#failing ? 0 : LOCK_TIMEOUT_MS)) {
      this.#failing = true
      return new Error(`thread ${this.#shared.holder} has held the audit file for too long`)
    }
    try {
      const error = work()
      this.#failing = error !== undefined
      return error
    } finally {
      this.#shared.leave()
    }
  }

  /** With the commit lock: stores the end of the file, to which a failed commit is rolled back. */
  startCommit(): CommitStart | undefined {
    let start: CommitStart | undefined
    this.underLock(() => {
      const { sizeBytes, tornBytes } = this.sink
      this.#shared.shortenTo(sizeBytes)
      start = { ...this.#shared.startCommit(), tornBytes }
      return undefined
    })
    return start
  }

  /**
   * With the commit lock: cuts off what was written since `start`. If that fails no thread writes to this file any more: the
   * disk may have dropped some of it and would not report that again.
   */
  rollBackTo(start: CommitStart): void {
    this.underLock(() => {
      const bytes = this.#shared.fileEnd().end - start.end
      if (this.#sink.cutOff(bytes)) this.#shared.rollBackTo(start)
      else this.#shared.distrust()
      return undefined
    })
    if (!this.#shared.distrusted) this.#sink.tornBytes = start.tornBytes
  }

  /** The file in use, and the end of its last whole line. */
  present(): FileEnd & { readonly inode: string } {
    const read = () => ({ ...this.#shared.fileEnd(), inode: this.sink.identity().inode })
    let present: ReturnType<typeof read> | undefined
    this.underLock(() => {
      present = read()
      return undefined
    })
    // Whoever holds the lock for so long is dead, and cannot change the file.
    return present ?? read()
  }

  /** Releases the locks of a dead thread; cuts off the line it was writing and what it had not committed. */
  release(thread: number): void {
    const shared = this.#shared
    const left = shared.takeOver(thread, () => this.#sink.sizeBytes)
    if (left !== undefined) {
      this.#follow()
      if (left.tornBytes > 0 && !this.#sink.cutOff(left.tornBytes)) this.#sink.endLine()
      shared.leave()
    }
    const start = shared.commitStartOf(thread)
    if (start !== undefined) this.rollBackTo({ ...start, tornBytes: 0 })
    shared.releaseCommitLockOf(thread)
  }

  /** Under the lock: all threads use this file from now on. @returns the one before, to be closed. */
  moveTo(next: TrailSink): TrailSink {
    const old = this.#sink
    this.#sink = next
    this.#shared.setFile(next.fd, next.sizeBytes)
    this.#generation = this.#shared.generation
    return old
  }

  #put(lines: readonly string[]): Error | undefined {
    const shared = this.#shared
    this.#follow()
    if (shared.tornByAnother) return new Error('another thread has a line to finish first')
    if (shared.distrusted) return new Error('the disk has refused to commit this file: rotate it')
    const sink = this.#sink
    const tornBefore = sink.tornBytes
    shared.beforeWrite(sink.load(lines.join('')), openChangeIn(lines))
    const error = sink.write()
    if (error === undefined) shared.afterWrite()
    else {
      const addedBytes = sink.tornBytes - tornBefore
      this.#wholeLines = sink.leaveWhole(lines)
      const openChange = openChangeIn(lines.slice(0, this.#wholeLines))
      shared.afterFailedWrite({ addedBytes, tornBytes: sink.tornBytes, openChange })
    }
    return error
  }

  #follow(): void {
    if (this.#generation === this.#shared.generation) return
    this.#generation = this.#shared.generation
    this.#sink = new TrailSink(this.#shared.fd)
  }
}

function openChangeIn(lines: readonly string[]): number {
  let change = 0
  for (const line of lines) change += openChangeOf(line)
  return change
}
