import { readRegularFile } from '../../storage/regular-file.ts'
import { type Checkpoint, parseCheckpoint } from '../seals/checkpoint.ts'
import { parseNote } from '../seals/signed-note.ts'
import { checkpointFile } from '../seals/tiles.ts'

/** How far something beside the log has followed it. */
export interface Progress {
  /** Leaves of the newest checkpoint of the log. */
  readonly sealed: number
  /** Leaves of the newest one that the other side has attested. */
  readonly attested: number
  /** Since when there has been another checkpoint, milliseconds since the epoch; undefined: there is none. */
  readonly behindSinceMs: number | undefined
}

export interface PacedRoundsOptions {
  /** Directory of the log. */
  readonly directory: string
  /** Between the beginnings of two rounds, at least. */
  readonly everyMs: number
  /** Default 1 s; it doubles with each retry, up to `everyMs` or five minutes. */
  readonly firstRetryMs?: number
  readonly reports: {
    /** A checkpoint was attested, or the log has gone on. */
    progress(progress: Progress): void
  }
}

const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
/** Longer ones do not fit a timer. */
const LONGEST_WAIT_MS = 86_400_000
const NEVER = Number.POSITIVE_INFINITY

/**
 * Has checkpoints of a log attested: runs rounds one after the other, only when there is a new checkpoint, and retries those
 * that failed.
 */
export abstract class PacedRounds {
  protected progress: Progress
  protected readonly aborted = new AbortController()
  readonly #options: PacedRoundsOptions
  /** When the first checkpoint came after the one that is asked about. */
  #newerSinceMs: number | undefined
  #askedSize: number
  #isWanted = false
  #isRunning = false
  #begunMs: number
  /** When to try again; infinite when nothing is missing. */
  #retryMs = NEVER
  #delayMs = 0
  #timer: NodeJS.Timeout | undefined

  /** @param last the newest checkpoint that a run before had attested, and the age of that; undefined: there was none */
  constructor(
    options: PacedRoundsOptions,
    last: { readonly size: number; readonly ageMs: number } | undefined,
  ) {
    this.#options = options
    this.#askedSize = last?.size ?? 0
    this.progress = { sealed: 0, attested: this.#askedSize, behindSinceMs: undefined }
    this.#begunMs = performance.now() - (last?.ageMs ?? NEVER)
  }

  /** Asks for the newest checkpoint. @returns whether it has succeeded. Must not reject */
  protected abstract round(): Promise<boolean>

  /** Asks for what is still missing of the round. @returns whether it has succeeded. Must not reject */
  protected abstract retry(): Promise<boolean>

  /** A checkpoint of so many leaves stands on disk. */
  sealed(size: number): void {
    const nowMs = Date.now()
    const { attested, behindSinceMs = nowMs } = this.progress
    this.progress = { sealed: size, attested, behindSinceMs: size === attested ? undefined : behindSinceMs }
    // A smaller one, after a backup was put back, is asked about too: the others will say what they have seen.
    if (size !== this.#askedSize) {
      this.#newerSinceMs ??= nowMs
      this.#isWanted = true
      this.#schedule()
    }
    this.#options.reports.progress(this.progress)
  }

  /** Asks no more, and gives up what is under way. */
  close(): void {
    clearTimeout(this.#timer)
    this.aborted.abort()
  }

  /** Reads the checkpoint that this round asks for. @throws Error of the system, or NoteFault */
  protected newest(): { readonly bytes: Buffer; readonly text: string; readonly checkpoint: Checkpoint } {
    const bytes = readRegularFile(checkpointFile(this.#options.directory))
    const { text } = parseNote(bytes)
    const checkpoint = parseCheckpoint(text)
    this.#askedSize = checkpoint.size
    this.#newerSinceMs = undefined
    return { bytes, text, checkpoint }
  }

  /** The checkpoint of `newest` is attested. */
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
    // Timers can be early, and long waits are cut.
    if (!begins && nowMs < this.#retryMs) return this.#schedule()
    this.#isRunning = true
    if (begins) {
      this.#isWanted = false
      this.#begunMs = nowMs
      this.#delayMs = firstRetryMs
    }
    const isDone = await (begins ? this.round() : this.retry())
    // Gateways that lost a server together do not come back together.
    const delayMs = this.#delayMs * (0.5 + Math.random())
    this.#retryMs = isDone ? NEVER : performance.now() + delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, Math.max(everyMs, firstRetryMs), LAST_RETRY_MS)
    this.#isRunning = false
    this.#schedule()
  }
}
