/** How far the clock of the machine may run ahead of the time that has passed. */
const MAX_AHEAD_MS = 3_600_000

/**
 * The time of day for what cannot be undone: a clock that jumps forward while the process runs, by years in the worst case,
 * moves this one by an hour at most.
 */
export class SteadyWallClock {
  readonly #wall: () => number
  readonly #steady: () => number
  readonly #beginMs: number
  readonly #steadyBeginMs: number

  constructor(wall: () => number = Date.now, steady: () => number = () => performance.now()) {
    this.#wall = wall
    this.#steady = steady
    this.#beginMs = wall()
    this.#steadyBeginMs = steady()
  }

  /** Milliseconds since the epoch. */
  now(): number {
    const passedMs = this.#steady() - this.#steadyBeginMs
    return Math.min(this.#wall(), this.#beginMs + passedMs + MAX_AHEAD_MS)
  }
}
