import { readRegularFile } from '../../storage/regular-file.ts'
import { type Checkpoint, parseCheckpoint } from '../seals/checkpoint.ts'
import { parseNote } from '../seals/signed-note.ts'
import { checkpointFile } from '../seals/tiles.ts'

export interface Progress {
  readonly sealed: number
  readonly attested: number
  /** Undefined: nothing is behind. */
  readonly behindSinceMs: number | undefined
}

/** The newest checkpoint that was attested in an earlier run. */
export interface Attested {
  readonly size: number
  readonly ageMs: number
}

export interface PacedRoundsOptions {
  readonly directory: string
  readonly everyMs: number
  /** Default 1 s; doubles up to `everyMs`, at most five minutes. */
  readonly firstRetryMs?: number
  readonly reports: { progress(progress: Progress): void }
}

const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
const LONGEST_WAIT_MS = 86_400_000
const NEVER = Number.POSITIVE_INFINITY

/** Has new checkpoints attested in rounds, and retries failed rounds. */
export abstract class PacedRounds {
  protected progress: Progress
  protected readonly aborted = new AbortController()
  readonly #options: PacedRoundsOptions
  #newerSinceMs: number | undefined
  #askedSize: number
  #isWanted = false
  #isRunning = false
  #begunMs: number
  #retryMs = NEVER
  #delayMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: PacedRoundsOptions, last: Attested | undefined) {
    this.#options = options
    this.#askedSize = last?.size ?? 0
    this.progress = { sealed: 0, attested: this.#askedSize, behindSinceMs: undefined }
    this.#begunMs = performance.now() - (last?.ageMs ?? NEVER)
  }

  /** Has the newest checkpoint attested. Must not reject. @returns whether it has succeeded */
  protected abstract round(): Promise<boolean>

  /** Asks for what the round still lacks. Must not reject. */
  protected retry(): Promise<boolean> {
    return this.round()
  }

  sealed(size: number): void {
    const nowMs = Date.now()
    const { attested, behindSinceMs = nowMs } = this.progress
    this.progress = { sealed: size, attested, behindSinceMs: size === attested ? undefined : behindSinceMs }
    // A restored backup has a smaller tree. A witness then answers that it has seen a larger tree.
    if (size !== this.#askedSize) {
      this.#newerSinceMs ??= nowMs
      this.#isWanted = true
      this.#schedule()
    }
    this.#options.reports.progress(this.progress)
  }

  close(): void {
    clearTimeout(this.#timer)
    this.aborted.abort()
  }

  protected newest(): { readonly bytes: Buffer; readonly text: string; readonly checkpoint: Checkpoint } {
    const bytes = readRegularFile(checkpointFile(this.#options.directory))
    const { text } = parseNote(bytes)
    const checkpoint = parseCheckpoint(text)
    this.#askedSize = checkpoint.size
    this.#newerSinceMs = undefined
    return { bytes, text, checkpoint }
  }

  protected attested(): void {
    const { sealed } = this.progress
    this.progress = { sealed, attested: this.#askedSize, behindSinceMs: this.#newerSinceMs }
    this.#options.reports.progress(this.progress)
  }

  #schedule(): void {
    if (this.#isRunning || this.aborted.signal.aborted) return
    const dueMs = Math.min(this.#isWanted ? this.#begunMs + this.#options.everyMs : NEVER, this.#retryMs)
    clearTimeout(this.#timer)
    if (dueMs === NEVER) return
    const waitMs = Math.min(Math.max(dueMs - performance.now(), 0), LONGEST_WAIT_MS)
    this.#timer = setTimeout(() => void this.#run(), waitMs).unref()
  }

  async #run(): Promise<void> {
    const { everyMs, firstRetryMs = FIRST_RETRY_MS } = this.#options
    const nowMs = performance.now()
    const begins = this.#isWanted && nowMs >= this.#begunMs + everyMs
    // Timers can fire early, and long waits are divided.
    if (!begins && nowMs < this.#retryMs) return this.#schedule()
    this.#isRunning = true
    if (begins) {
      this.#isWanted = false
      this.#begunMs = nowMs
      this.#delayMs = firstRetryMs
    }
    const isDone = await (begins ? this.round() : this.retry())
    // Spreads the retries of many gateways.
    const delayMs = this.#delayMs * (0.5 + Math.random())
    this.#retryMs = isDone ? NEVER : performance.now() + delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, Math.max(everyMs, firstRetryMs), LAST_RETRY_MS)
    this.#isRunning = false
    this.#schedule()
  }
}
