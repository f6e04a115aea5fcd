/** How often the delay is measured. */
const SAMPLE_MS = 20
/** The share changes at most so often, and after this many samples at least: one long pause is no overload. */
const WINDOW_MS = 200
const WINDOW_SAMPLES = 3
/** In percent: how fast the share grows and shrinks. It shrinks more slowly, so that it does not swing. */
const STEP_UP = 10
const STEP_DOWN = 5
/** Some requests pass always: without them nobody would see that the load is over. */
const MAX_PERCENT = 95

interface Options {
  /** Monotonic, milliseconds. */
  readonly steadyClock: () => number
  /** Called when the share of refused requests has changed, from 0 to 1, with the delay that it was changed for. */
  readonly onShare: (share: number, delayMs: number) => void
}

/**
 * Refuses a share of the requests of this thread while its event loop is late, so that the others stay fast. The delay is
 * the smallest of a short time: what every request has to wait. Beyond the bound the share grows, below half of it it
 * shrinks, and in between it stays.
 */
export class Shedding {
  readonly #options: Options
  #maxDelayMs = Number.POSITIVE_INFINITY
  #timer: NodeJS.Timeout | undefined = undefined
  /** The share that is refused. */
  #percent = 0
  /** The sum of the shares of all requests, less a hundred for each refused. */
  #accumulatedPercent = 0
  #lastMs = 0
  #windowEndMs = 0
  #samples = 0
  #leastDelayMs = Number.POSITIVE_INFINITY

  constructor(options: Options) {
    this.#options = options
  }

  /** @param maxDelayMs undefined: nothing is refused, and nothing measured */
  enforce(maxDelayMs: number | undefined): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#maxDelayMs = maxDelayMs ?? Number.POSITIVE_INFINITY
    if (maxDelayMs === undefined) {
      this.#change(0, 0)
      return
    }
    this.#lastMs = this.#options.steadyClock()
    this.#beginWindow()
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS).unref()
  }

  /** Whether the request that is asked for is among those refused. */
  refusesNext(): boolean {
    if (this.#percent === 0) return false
    this.#accumulatedPercent += this.#percent
    if (this.#accumulatedPercent < 100) return false
    this.#accumulatedPercent -= 100
    return true
  }

  /** Measures by how much it is called later than `SAMPLE_MS` after the last time. */
  sample(): void {
    const nowMs = this.#options.steadyClock()
    const delayMs = Math.max(0, nowMs - this.#lastMs - SAMPLE_MS)
    this.#lastMs = nowMs
    this.#samples += 1
    if (delayMs < this.#leastDelayMs) this.#leastDelayMs = delayMs
    if (nowMs < this.#windowEndMs || this.#samples < WINDOW_SAMPLES) return
    this.#judge(this.#leastDelayMs)
    this.#beginWindow()
  }

  #judge(delayMs: number): void {
    if (delayMs > this.#maxDelayMs) this.#change(Math.min(MAX_PERCENT, this.#percent + STEP_UP), delayMs)
    else if (delayMs < this.#maxDelayMs / 2) this.#change(Math.max(0, this.#percent - STEP_DOWN), delayMs)
  }

  #change(percent: number, delayMs: number): void {
    if (percent === this.#percent) return
    this.#percent = percent
    this.#options.onShare(percent / 100, delayMs)
  }

  #beginWindow(): void {
    this.#windowEndMs = this.#lastMs + WINDOW_MS
    this.#samples = 0
    this.#leastDelayMs = Number.POSITIVE_INFINITY
  }
}
