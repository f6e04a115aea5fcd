import { openChangeOf } from '../audit-records.ts'
import type { TrailSink } from './trail-sink.ts'

/** The end of the file in bytes, and the number of requests open there. */
export interface FileEnd {
  readonly end: number
  readonly open: number
}

/**
 * The file is looked at when nothing was written for so long. Under load, when groups follow one another, it is not. Longer than
 * a tick of the kernel, which is what files are stamped with.
 */
const IDLE_MS = 20
const ROUNDING_MS = 0.001

/** Where a commit began: if it fails, it is rolled back to here. */
export interface CommitStart extends FileEnd {
  /** Bytes of a partial line before the end. */
  readonly tornBytes: number
}

/** A place in the file in use. */
export interface FilePlace {
  readonly inode: string
  /** Bytes before it. */
  readonly end: number
}

/** Seals the trail beside it: is told what is written, so that nobody has to read it back from a file that others may change. */
export interface TrailSeals {
  /** What it is told from now on stands behind the trail's `told`. */
  begin(): void
  /** Whole lines, committed, behind those before. The bytes are only lent until the call returns. */
  wrote(lines: Buffer): void
  /** How often it has begun or ended to write bytes of the file again in their place. Odd: it does so now. */
  mends(): number
  /** The lines from now on stand in another file, which is empty. */
  moved(inode: string): void
  /** Seals all that the file has, and ends until `begin`. @returns lines to append, which say so. */
  finish(): Promise<readonly string[]>
}

/**
 * Writes whole lines to the file, counts the open requests, and knows where the file ends. What a failed write left is cut
 * off. What is written between `startCommit` and `endCommit` can be rolled back.
 */
export class TrailFile {
  #sink: TrailSink
  #end: number
  #open = 0
  #wholeLines = 0
  #distrusted = false
  #committing: PromiseWithResolvers<void> | undefined
  #isUncommitted = false
  #seals: TrailSeals | undefined
  /** Lines that the seals have not been told: they may be rolled back, or there are no seals yet. */
  #untold: Buffer[] = []
  readonly #isFollowed: boolean
  /** Nobody else may write to the file. */
  #isOwn: boolean
  /** The first lines of a new file, until they are written. */
  #first: readonly string[] = []
  /** Others may have left a line without its end, to which ours must not be glued. */
  #isEndForeign = false
  /** When the file was last changed as far as the gateway knows; undefined when it has written since it looked. */
  #changedAtMs: number | undefined
  /** The `mends` of the seals then. */
  #mendsSeen = 0
  #idle: NodeJS.Timeout | undefined
  /** Others have written to the file: calls `moveTo`, if the trail shall go on in a new one. */
  onForeign: (at: number, found: number) => void = () => {}

  /** @param isFollowed `follow` will be called: the lines from now on are kept for it */
  constructor(sink: TrailSink, isFollowed = false) {
    this.#sink = sink
    this.#end = sink.stats.size
    this.#isFollowed = isFollowed
    this.#isOwn = sink.isOwn
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
    return this.#sink
  }

  /** Requests in the trail without their response. */
  get open(): number {
    return this.#open
  }

  set open(count: number) {
    this.#open = count
  }

  /** Hands lines to the operating system by one write: all of them or none, unless `torn` (see `wholeLines`). */
  put(lines: readonly string[]): Error | undefined {
    this.#wholeLines = 0
    const error = this.#isUncommitted ? undefined : this.check()
    return error ?? this.#put(lines)
  }

  /**
   * Looks whether the file has the size that it was left with, and, after a pause, the time of its last change. Otherwise it goes
   * on in a new file, or, where `onForeign` began none, in a new line of this one.
   *
   * @returns why that cannot be begun
   */
  check(): Error | undefined {
    const stats = this.#isOwn ? this.#sink.stats : undefined
    const found = stats?.size ?? this.#end
    const isChanged = stats !== undefined && this.#isChanged(stats.mtimeMs)
    if (found !== this.#end || isChanged) {
      const at = this.#end
      this.#changedAtMs = undefined
      // Where there can be no new file, it is said once.
      this.#end = found
      this.#isEndForeign = true
      this.onForeign(at, found)
    }
    if (this.#isEndForeign && !this.torn) {
      this.#sink.load('\n')
      this.#changedAtMs = undefined
      const error = this.#sink.write()
      if (error !== undefined) return error
      this.#end++
      this.#isEndForeign = false
    }
    if (this.#first.length === 0) return undefined
    const error = this.#put(this.#first)
    this.#first = error === undefined ? [] : this.#first.slice(this.#wholeLines)
    this.#wholeLines = 0
    return error
  }

  #isChanged(mtimeMs: number): boolean {
    // A backup program may set the times back to what it has read, and round them.
    if (this.#changedAtMs === undefined || mtimeMs <= this.#changedAtMs + ROUNDING_MS) return false
    if ((this.#seals?.mends() ?? 0) === this.#mendsSeen) return true
    this.#changedAtMs = undefined
    return false
  }

  /** Notes when the file was last changed, so that the next `check` notices also what others overwrite in their place. */
  note(): void {
    const mends = this.#seals?.mends() ?? 0
    if (!this.#isOwn || this.#changedAtMs !== undefined || mends % 2 === 1) return
    this.#mendsSeen = mends
    try {
      this.#changedAtMs = this.#sink.stats.mtimeMs
    } catch {
      // A disk that has gone is reported by the next write.
    }
  }

  #put(lines: readonly string[]): Error | undefined {
    if (this.#distrusted) return new Error('the disk has refused to commit this file: rotate it')
    if (this.#isUncommitted && (this.#isEndForeign || this.#first.length > 0))
      return new Error('a new file or line has not begun yet')
    const sink = this.#sink
    const tornBefore = sink.tornBytes
    const bytes = sink.load(lines.join(''))
    this.#changedAtMs = undefined
    this.#idle ??= setTimeout(() => this.note(), IDLE_MS).unref()
    this.#idle.refresh()
    const error = sink.write()
    if (error === undefined) {
      this.#end += bytes.length - tornBefore
      this.#open += openChangeIn(lines)
      this.#tell(bytes)
      return undefined
    }
    const written = sink.tornBytes
    this.#end += written - tornBefore
    this.#wholeLines = sink.leaveWhole(lines)
    this.#open += openChangeIn(lines.slice(0, this.#wholeLines))
    this.#tell(bytes.subarray(0, written - sink.tornBytes))
    return error
  }

  /**
   * Takes the right to commit, which may be kept over turns of the event loop.
   *
   * @returns undefined; when another has it, what resolves at its `releaseCommit`
   */
  takeCommit(): Promise<void> | undefined {
    if (this.#committing !== undefined) return this.#committing.promise
    this.#committing = Promise.withResolvers()
    return undefined
  }

  /** What was written and not rolled back stays. */
  releaseCommit(): void {
    if (this.#committing === undefined) return
    this.endCommit()
    this.#committing.resolve()
    this.#committing = undefined
  }

  get isCommitting(): boolean {
    return this.#committing !== undefined
  }

  /** What is put from here on is cut off again by `rollBackTo`. */
  startCommit(): CommitStart {
    this.endCommit()
    this.check()
    this.#isUncommitted = true
    return { end: this.#end, open: this.#open, tornBytes: this.#sink.tornBytes }
  }

  /** What has been written stays. */
  endCommit(): void {
    this.#isUncommitted = false
    this.#tellUntold()
  }

  /**
   * Cuts off what was written since `start`. If that fails nothing more is written to this file: the disk may have dropped some
   * of it and would not report that again.
   */
  rollBackTo(start: CommitStart): void {
    this.#changedAtMs = undefined
    if (!this.#sink.cutOff(this.#end - start.end)) {
      this.#distrusted = true
      return
    }
    this.#end = start.end
    this.#open = start.open
    this.#sink.tornBytes = start.tornBytes
    this.#isUncommitted = false
    this.#untold = []
  }

  /** The file in use, its end, and the requests open there. */
  present(): FileEnd & FilePlace {
    return { end: this.#end, open: this.#open, inode: this.#sink.inode }
  }

  /** Goes on in this file. @param first its first lines @returns the one before, to be closed. */
  moveTo(next: TrailSink, first: readonly string[] = []): TrailSink {
    const old = this.#sink
    this.endCommit()
    this.#sink = next
    this.#changedAtMs = undefined
    this.#first = first
    this.#isEndForeign = false
    this.#end = next.stats.size
    this.#isOwn = next.isOwn
    this.#distrusted = false
    this.#seals?.moved(next.inode)
    return old
  }

  /** @throws Error of the system, when something could not be written. */
  close(): void {
    clearTimeout(this.#idle)
    this.#sink.close()
  }

  /** Begins the seals, and hands them the lines from now on and those before that they have not been told. */
  follow(seals: TrailSeals): void {
    seals.begin()
    this.#seals = seals
    if (!this.#isUncommitted) this.#tellUntold()
  }

  unfollow(): void {
    this.#seals = undefined
    this.#untold = []
    // It may have written bytes again while it ended.
    this.#changedAtMs = undefined
  }

  /** The place up to which the seals have been handed the lines of the file in use, or from which they will be. */
  get told(): FilePlace {
    const untold = this.#untold.reduce((sum, { length }) => sum + length, 0)
    return { inode: this.#sink.inode, end: this.#end - this.#sink.tornBytes - untold }
  }

  #tell(lines: Buffer): void {
    if (lines.length === 0) return
    if (this.#seals !== undefined && !this.#isUncommitted) this.#seals.wrote(lines)
    else if (this.#seals !== undefined || this.#isFollowed) this.#untold.push(Buffer.from(lines))
  }

  #tellUntold(): void {
    if (this.#seals === undefined) return
    for (const lines of this.#untold.splice(0)) this.#seals.wrote(lines)
  }
}

function openChangeIn(lines: readonly string[]): number {
  let change = 0
  for (const line of lines) change += openChangeOf(line)
  return change
}
