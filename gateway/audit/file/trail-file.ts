import { openChangeOf } from '../audit-records.ts'
import type { OpenRequestNotes } from '../recovery/open-request-notes.ts'
import type { FileEnd, SharedTrail, TurnStart } from './shared-trail.ts'
import { TrailSink } from './trail-sink.ts'

/** How long to wait for the lock before a write fails. */
const PATIENCE_MS = 250

export interface TrailFileOptions {
  readonly shared: SharedTrail
  /** Of the thread that opened the file; others use the descriptor in shared memory. */
  readonly sink?: TrailSink
  /** Of a joined thread, which can die without the process. */
  readonly notes?: OpenRequestNotes | undefined
  /** `synced`: a request counts as open until `committed` is called with its response. */
  readonly syncs?: boolean
}

/**
 * Writes whole lines to the file that all threads share, under their lock, and counts the open requests. What a failed
 * write left is cut off before another thread can write after it.
 */
export class TrailFile {
  readonly #shared: SharedTrail
  readonly #notes: OpenRequestNotes | undefined
  readonly #syncs: boolean
  #sink: TrailSink
  #generation: number
  #failing = false
  #wholeLines = 0

  constructor({ shared, sink = new TrailSink(shared.fd), notes, syncs = false }: TrailFileOptions) {
    this.#syncs = syncs
    this.#shared = shared
    this.#notes = notes
    this.#sink = sink
    this.#generation = shared.generation
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

  /** Runs `work` while no other thread can write. @returns its error, or that the lock was not had. */
  underLock(work: () => Error | undefined): Error | undefined {
    this.#wholeLines = 0
    if (!this.#enter()) return this.#lockedOut()
    try {
      return this.#noteOutcome(work())
    } finally {
      this.#shared.leave()
    }
  }

  /** With the turn: notes the end of the file, which a failed commit rolls back to. */
  startTurn(): TurnStart | undefined {
    let start: TurnStart | undefined
    this.underLock(() => {
      start = { ...this.#shared.startTurn(), tornBytes: this.#sink.tornBytes }
      return undefined
    })
    return start
  }

  /**
   * With the turn: cuts off what was written since `start`. If that fails no thread writes to this file any more: the disk
   * may have dropped some of it and would not report that again.
   */
  rollBackTo(start: TurnStart, lines: readonly string[]): void {
    this.underLock(() => {
      const bytes = this.#shared.here().end - start.end
      if (this.#sink.cutOff(bytes)) this.#shared.rollBackTo(start)
      else this.#shared.distrust()
      return undefined
    })
    if (this.#shared.distrusted) return
    this.#sink.tornBytes = start.tornBytes
    this.#unnote(lines, 1)
  }

  /** The disk has these lines. */
  committed(lines: readonly string[]): void {
    this.#unnote(lines, -1)
  }

  /** The end of the last whole line. */
  here(): FileEnd {
    let end = this.#shared.here()
    this.underLock(() => {
      end = this.#shared.here()
      return undefined
    })
    return end
  }

  /** Gives up the lock and the turn of a dead thread; cuts off the line it was writing and what it had not committed. */
  release(thread: number): void {
    const shared = this.#shared
    const left = shared.takeOver(thread, () => this.#sink.sizeBytes)
    if (left !== undefined) {
      this.#follow()
      if (left.tornBytes > 0 && !this.#sink.cutOff(left.tornBytes)) this.#sink.endLine()
      shared.leave()
    }
    const turn = shared.turnOf(thread)
    if (turn !== undefined) this.rollBackTo({ ...turn, tornBytes: 0 }, [])
    shared.passTurnOf(thread)
  }

  /** Under the lock: all threads use this file from now on. @returns the one before, to be closed. */
  moveTo(next: TrailSink): TrailSink {
    const old = this.#sink
    this.#sink = next
    this.#shared.setFile(next.fd, next.sizeBytes)
    this.#generation = this.#shared.generation
    return old
  }

  #enter(): boolean {
    return this.#shared.enter(this.#failing ? 0 : PATIENCE_MS)
  }

  #lockedOut(): Error {
    this.#failing = true
    return new Error(`thread ${this.#shared.holder} has held the audit file for too long`)
  }

  #noteOutcome(error: Error | undefined): Error | undefined {
    this.#failing = error !== undefined
    return error
  }

  #put(lines: readonly string[]): Error | undefined {
    const shared = this.#shared
    this.#follow()
    if (shared.tornByAnother) return new Error('another thread has a line to finish first')
    if (shared.distrusted) return new Error('the disk has refused to commit this file: rotate it')
    const sink = this.#sink
    const tornBefore = sink.tornBytes
    this.#note(lines)
    shared.beforeWrite(sink.load(lines.join('')), openChangeIn(lines))
    const error = sink.write()
    if (error === undefined) {
      shared.afterWrite()
      if (!this.#syncs) this.#unnote(lines, -1)
    } else {
      const addedBytes = sink.tornBytes - tornBefore
      this.#wholeLines = sink.leaveWhole(lines)
      const [whole, rest] = [lines.slice(0, this.#wholeLines), lines.slice(this.#wholeLines)]
      shared.afterFailedWrite({ addedBytes, tornBytes: sink.tornBytes, openChange: openChangeIn(whole) })
      this.#unnote(whole, -1)
      this.#unnote(rest, 1)
    }
    return error
  }

  #follow(): void {
    if (this.#generation === this.#shared.generation) return
    this.#generation = this.#shared.generation
    this.#sink = new TrailSink(this.#shared.fd)
  }

  #note(lines: readonly string[]): void {
    if (this.#notes === undefined) return
    for (const line of lines) if (openChangeOf(line) === 1) this.#notes.add(line)
  }

  #unnote(lines: readonly string[], openChange: number): void {
    if (this.#notes === undefined) return
    for (const line of lines) if (openChangeOf(line) === openChange) this.#notes.remove(line)
  }
}

function openChangeIn(lines: readonly string[]): number {
  let change = 0
  for (const line of lines) change += openChangeOf(line)
  return change
}
