/**
 * The timetable of an open loop: request number n is meant to start at n / rate, whether or not the answers before it
 * have come. What starts late, because nothing was free to send it or the generator itself was late, has its latency
 * counted from when it was meant to start: otherwise a stalled server would be asked less just while it is slow.
 */
export class Pace {
  readonly #startMs: number
  readonly #intervalMs: number
  readonly #count: number
  #next = 0

  /** @param count requests in the whole timetable */
  constructor(timetable: { readonly startMs: number; readonly perSecond: number; readonly count: number }) {
    this.#startMs = timetable.startMs
    this.#intervalMs = 1000 / timetable.perSecond
    this.#count = timetable.count
  }

  /** When the next request is meant to start; undefined when all have been taken. */
  get dueMs(): number | undefined {
    return this.#next < this.#count ? this.#startMs + this.#next * this.#intervalMs : undefined
  }

  /** Takes the next request if its time has come. @returns when it was meant to start, otherwise undefined. */
  take(nowMs: number): number | undefined {
    const dueMs = this.dueMs
    if (dueMs === undefined || dueMs > nowMs) return undefined
    this.#next += 1
    return dueMs
  }
}
