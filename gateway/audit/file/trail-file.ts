import type { Stats } from 'node:fs'
import { countsOf, openChangeIn, type RecordCounts } from '../audit-records.ts'
import type { TrailSink } from './trail-sink.ts'

export type FileEnd = { readonly end: number; readonly open: number }

/** Pause before the modification time is noted: longer than a tick of the kernel's clock. */
const IDLE_MS = 20
const ROUNDING_MS = 0.001

export interface CommitStart extends FileEnd {
  readonly tornBytes: number
}

export type FilePlace = { readonly inode: string; readonly end: number }

/** Gets the written lines, so that none is read back from a file that others may change. */
export interface TrailSeals {
  /** From now on `wrote` gets the committed lines behind `TrailFile.told`. */
  begin(): void
  /** Takes whole committed lines. The bytes are lent until the call returns. */
  wrote(lines: Buffer): void
  /** Counts begins and ends of rewrites in place. The count is odd during a rewrite. */
  mends(): number
  /** Later lines go into another, empty file. */
  moved(inode: string): void
  /** Seals the rest, and stops until `begin`. @returns records of seals to append */
  finish(): Promise<readonly string[]>
}

/** Can roll back what was written between `startCommit` and `endCommit`. */
export class TrailFile {
  sink: TrailSink
  #end: number
  open = 0
  /** Lines of the last failed `put` that are whole in the file. */
  wholeLines = 0
  /** Records of the last `put` that did not fail. */
  written: RecordCounts = new Map()
  #distrusted = false
  #committing: PromiseWithResolvers<void> | undefined
  #isUncommitted = false
  #seals: TrailSeals | undefined
  /** Lines not yet told to the seals, because they may be rolled back or there are no seals yet. */
  #untold: Buffer[] = []
  readonly #isFollowed: boolean
  #first: string[] = []
  /** Another process may have left a line without its end. */
  #isEndForeign = false
  /** Modification time as last noted; undefined once the gateway has written. */
  #changedAtMs: number | undefined
  #mendsSeen = 0
  #idle: NodeJS.Timeout | undefined
  /** Called after foreign writes; may call `moveTo`. */
  onForeign: (at: number, found: number) => void = () => {}
  /** Called when first lines of the next file are written. */
  onFirst: (counts: RecordCounts) => void = () => {}

  /** @param isFollowed `follow` will be called, so lines are kept for it */
  constructor(sink: TrailSink, isFollowed = false) {
    this.sink = sink
    this.#end = sink.stats.size
    this.#isFollowed = isFollowed
  }

  /** True when a part of a line could not be cut off. The next `put` must begin with that line. */
  get torn(): boolean {
    return this.sink.tornBytes > 0
  }

  /** Hands lines to the operating system by one write: all or none, unless `torn` (see `wholeLines`). */
  put(lines: readonly string[]): Error | undefined {
    this.wholeLines = 0
    const error = this.#isUncommitted ? undefined : this.check()
    return error ?? this.#put(lines)
  }

  /**
   * Checks the size and, after a pause, the modification time. After a foreign write the trail continues in a new file,
   * or in a new line if `onForeign` began no file.
   */
  check(): Error | undefined {
    let stats: Stats | undefined
    try {
      if (this.sink.isOwn) stats = this.sink.stats
    } catch (error) {
      return error as Error
    }
    const found = stats?.size ?? this.#end
    const isChanged = stats !== undefined && this.#isChanged(stats.mtimeMs)
    if (found !== this.#end || isChanged) {
      const at = this.#end
      this.#changedAtMs = undefined
      // Reports foreign bytes only once, even if no new file can be begun.
      this.#end = found
      this.#isEndForeign = true
      this.onForeign(at, found)
    }
    if (this.#isEndForeign && !this.torn) {
      this.sink.load('\n')
      this.#changedAtMs = undefined
      const error = this.sink.write()
      if (error !== undefined) return error
      this.#end++
      this.#isEndForeign = false
    }
    if (this.#first.length === 0) return undefined
    const error = this.#put(this.#first)
    const whole = error === undefined ? this.#first.length : this.wholeLines
    this.onFirst(countsOf(this.#first.splice(0, whole)))
    this.wholeLines = 0
    return error
  }

  #isChanged(mtimeMs: number): boolean {
    // A backup program may set the time back, or round it.
    if (this.#changedAtMs === undefined || mtimeMs <= this.#changedAtMs + ROUNDING_MS) return false
    if ((this.#seals?.mends() ?? 0) === this.#mendsSeen) return true
    this.#changedAtMs = undefined
    return false
  }

  /** Notes the modification time, by which `check` notices a foreign write that keeps the size. */
  note(): void {
    const mends = this.#seals?.mends() ?? 0
    if (!this.sink.isOwn || this.#changedAtMs !== undefined || mends % 2 === 1) return
    this.#mendsSeen = mends
    try {
      this.#changedAtMs = this.sink.stats.mtimeMs
    } catch {
      // A disk that has gone is reported by the next write.
    }
  }

  #put(lines: readonly string[]): Error | undefined {
    if (this.#distrusted) return new Error('the disk has refused to commit this file: rotate it')
    if (this.#isUncommitted && (this.#isEndForeign || this.#first.length > 0))
      return new Error('a new file or line has not begun yet')
    const sink = this.sink
    const tornBefore = sink.tornBytes
    const counts = countsOf(lines)
    const bytes = sink.load(lines.join(''))
    this.#changedAtMs = undefined
    this.#idle ??= setTimeout(() => this.note(), IDLE_MS).unref()
    this.#idle.refresh()
    const error = sink.write()
    if (error === undefined) {
      this.#end += bytes.length - tornBefore
      this.written = counts
      this.open += openChangeIn(counts)
      this.#tell(bytes)
      return undefined
    }
    const written = sink.tornBytes
    this.#end += written - tornBefore
    this.wholeLines = sink.leaveWhole(lines)
    this.open += openChangeIn(countsOf(lines.slice(0, this.wholeLines)))
    this.#tell(bytes.subarray(0, written - sink.tornBytes))
    return error
  }

  /** Takes the right to commit. @returns undefined when taken; else a promise that resolves at its release */
  takeCommit(): Promise<void> | undefined {
    const { committing } = this
    if (committing === undefined) this.#committing = Promise.withResolvers()
    return committing
  }

  releaseCommit(): void {
    if (this.#committing === undefined) return
    this.endCommit()
    this.#committing.resolve()
    this.#committing = undefined
  }

  /** Resolves when the right to commit is released; undefined when nobody has it. */
  get committing(): Promise<void> | undefined {
    return this.#committing?.promise
  }

  startCommit(): CommitStart {
    this.endCommit()
    this.check()
    this.#isUncommitted = true
    return { end: this.#end, open: this.open, tornBytes: this.sink.tornBytes }
  }

  endCommit(): void {
    this.#isUncommitted = false
    this.#tellUntold()
  }

  /** Cuts off what came after `start`. If it fails, nothing more is written, as the disk may have dropped a part. */
  rollBackTo(start: CommitStart): void {
    this.#changedAtMs = undefined
    if (!this.sink.cutOff(this.#end - start.end)) {
      this.#distrusted = true
      return
    }
    this.#end = start.end
    this.open = start.open
    this.sink.tornBytes = start.tornBytes
    this.#isUncommitted = false
    this.#untold = []
  }

  present(): FileEnd & FilePlace {
    return { end: this.#end, open: this.open, inode: this.sink.inode }
  }

  /** @param first lines of the next file @returns the previous file, which the caller closes */
  moveTo(next: TrailSink, first: string[] = []): TrailSink {
    const old = this.sink
    this.endCommit()
    this.sink = next
    this.#changedAtMs = undefined
    this.#first = first
    this.#isEndForeign = false
    this.#end = next.stats.size
    this.#distrusted = false
    this.#seals?.moved(next.inode)
    return old
  }

  close(): void {
    clearTimeout(this.#idle)
    this.sink.close()
  }

  follow(seals: TrailSeals): void {
    seals.begin()
    this.#seals = seals
    if (!this.#isUncommitted) this.#tellUntold()
  }

  unfollow(): void {
    this.#seals = undefined
    this.#untold = []
    // The seals may have rewritten bytes before they ended.
    this.#changedAtMs = undefined
  }

  get told(): FilePlace {
    const untold = this.#untold.reduce((sum, { length }) => sum + length, 0)
    return { inode: this.sink.inode, end: this.#end - this.sink.tornBytes - untold }
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
