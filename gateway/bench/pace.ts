/**
 * The timetable of an open loop: request n is due at n / rate, whether or not earlier responses have come. Otherwise a
 * slow server would get fewer requests just while it is slow. Latency counts from the due time.
 */
export class Pace {
  readonly #startMs: number
  readonly #intervalMs: number
  readonly #count: number
  #next = 0

  constructor(timetable: { readonly startMs: number; readonly perSecond: number; readonly count: number }) {
    this.#startMs = timetable.startMs
    this.#intervalMs = 1000 / timetable.perSecond
    this.#count = timetable.count
  }

  /** When the next request is due; undefined after the last. */
  get dueMs(): number | undefined {
    return this.#next < this.#count ? this.#startMs + this.#next * this.#intervalMs : undefined
  }

  /** Takes the next request if it is due. Returns its due time; else undefined. */
  take(nowMs: number): number | undefined {
    const dueMs = this.dueMs
    if (dueMs === undefined || dueMs > nowMs) return undefined
    this.#next += 1
    return dueMs
  }
}
