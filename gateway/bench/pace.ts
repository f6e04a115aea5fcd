/**
 * The timetable of an open loop: request number n is due at n / rate, whether or not earlier responses have come. The latency
 * of a request that starts late is counted from when it was due: otherwise a slow server would get fewer requests just while
 * it is slow.
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
