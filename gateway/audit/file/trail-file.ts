import { openChangeOf } from '../audit-records.ts'
import type { OpenRequestNotes } from '../recovery/open-request-notes.ts'
import type { FileEnd, SharedTrail, TurnStart } from './shared-trail.ts'
import { TrailSink } from './trail-sink.ts'

/** How long another thread may hold the file before a line counts as one that cannot be written. */
const PATIENCE_MS = 250

export interface TrailFileOptions {
  readonly shared: SharedTrail
  /** Of the thread that opened the file; the others follow the descriptor in shared memory. */
  readonly sink?: TrailSink
  /** Of a thread that can die by itself. */
  readonly notes?: OpenRequestNotes | undefined
  /** What is put is not safe before `committed`: a response is noted as missing until then. */
  readonly syncs?: boolean
}

/**
 * Puts whole lines into the file that all threads share, under their lock, and keeps the count of open requests with
 * them. What a failed write left is cut off before another thread can write behind it.
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

  /** Of a line, a part stands in the file and could not be cut off: the same line comes first next time. */
  get torn(): boolean {
    return this.#sink.tornBytes > 0
  }

  /** How many lines before the torn one, of those that were put with it, stand in the file whole. They are as good as put. */
  get wholeLines(): number {
    return this.#wholeLines
  }

  /** The file as it is now. */
  get sink(): TrailSink {
    this.#follow()
    return this.#sink
  }

  /** Hands one line, or several at once, to the operating system: all of them or, unless `torn`, none (see `wholeLines`). */
  put(lines: readonly string[]): Error | undefined {
    return this.underLock(() => this.#put(lines))
  }

  /** Puts a line that says how many requests are open where it stands. @returns it too, in case it is torn. */
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

  /** Keeps the other threads out of the file meanwhile. */
  underLock(work: () => Error | undefined): Error | undefined {
    this.#wholeLines = 0
    if (!this.#enter()) return this.#kept()
    try {
      return this.#settled(work())
    } finally {
      this.#shared.leave()
    }
  }

  /** Under the turn: where a commit that fails goes back to. */
  startTurn(): TurnStart | undefined {
    let mark: TurnStart | undefined
    this.underLock(() => {
      mark = { ...this.#shared.startTurn(), tornBytes: this.#sink.tornBytes }
      return undefined
    })
    return mark
  }

  /**
   * Under the turn: cuts off what was put since then. If that cannot be done nobody writes this file any more, for the
   * disk may have dropped some of it, and would not say so again.
   */
  rollBackTo(mark: TurnStart, lines: readonly string[]): void {
    this.underLock(() => {
      const bytes = this.#shared.here().end - mark.end
      if (this.#sink.cutOff(bytes)) this.#shared.rollBackTo(mark)
      else this.#shared.distrust()
      return undefined
    })
    if (this.#shared.distrusted) return
    this.#sink.tornBytes = mark.tornBytes
    this.#unnote(lines, 1)
  }

  /** The disk has these lines. */
  committed(lines: readonly string[]): void {
    this.#unnote(lines, -1)
  }

  /** Where the file ends now, as far as it is whole. */
  here(): FileEnd {
    let point = this.#shared.here()
    this.underLock(() => {
      point = this.#shared.here()
      return undefined
    })
    return point
  }

  /** Ends what a thread that is no more was doing to the file: the line it was writing is cut off, and so is what it had not committed. */
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

  /** Under the lock: all threads go on in this file. @returns the one before, to be closed. */
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

  #kept(): Error {
    this.#failing = true
    return new Error(`thread ${this.#shared.holder} has held the audit file for too long`)
  }

  #settled(error: Error | undefined): Error | undefined {
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
    shared.intend(sink.load(lines.join('')), openChangeIn(lines))
    const error = sink.write()
    if (error === undefined) {
      shared.wrote()
      if (!this.#syncs) this.#unnote(lines, -1)
    } else {
      const addedBytes = sink.tornBytes - tornBefore
      this.#wholeLines = sink.leaveWhole(lines)
      const [whole, rest] = [lines.slice(0, this.#wholeLines), lines.slice(this.#wholeLines)]
      shared.failed({ addedBytes, tornBytes: sink.tornBytes, openChange: openChangeIn(whole) })
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
