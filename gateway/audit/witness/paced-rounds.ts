interface PacedRoundsOptions {
  /** Between the beginnings of two rounds, at least. */
  readonly everyMs: number
  /** How long ago the last one began, in a run before; undefined: there was none. */
  readonly begunAgoMs?: number | undefined
  /** Default 1 s; it doubles with each retry, up to `everyMs` or five minutes. */
  readonly firstRetryMs?: number
  /** @returns whether it has succeeded. Must not reject */
  readonly round: () => Promise<boolean>
  /** What is still missing of the round. */
  readonly retry: () => Promise<boolean>
}

const FIRST_RETRY_MS = 1000
const LAST_RETRY_MS = 300_000
/** Longer ones do not fit a timer. */
const LONGEST_WAIT_MS = 86_400_000
const NEVER = Number.POSITIVE_INFINITY

/** Runs rounds one after the other, only when there is something new, and retries those that failed. */
export class PacedRounds {
  readonly #options: PacedRoundsOptions
  #isWanted = false
  #isRunning = false
  #isClosed = false
  #begunMs: number
  /** When to try again; infinite when nothing is missing. */
  #retryMs = NEVER
  #delayMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: PacedRoundsOptions) {
    this.#options = options
    this.#begunMs = performance.now() - (options.begunAgoMs ?? NEVER)
  }

  /** There is something new. */
  want(): void {
    this.#isWanted = true
    this.#schedule()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#isRunning || this.#isClosed) return
    const dueMs = Math.min(this.#isWanted ? this.#begunMs + this.#options.everyMs : NEVER, this.#retryMs)
    clearTimeout(this.#timer)
    if (dueMs === NEVER) return
    const waitMs = Math.min(Math.max(dueMs - performance.now(), 0), LONGEST_WAIT_MS)
    this.#timer = setTimeout(() => void this.#run(), waitMs).unref()
  }

  async #run(): Promise<void> {
    const { everyMs, firstRetryMs = FIRST_RETRY_MS, round, retry } = this.#options
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
    const isDone = await (begins ? round() : retry())
    // Gateways that lost a server together do not come back together.
    const delayMs = this.#delayMs * (0.5 + Math.random())
    this.#retryMs = isDone ? NEVER : performance.now() + delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, Math.max(everyMs, firstRetryMs), LAST_RETRY_MS)
    this.#isRunning = false
    this.#schedule()
  }
}
