const SLOTS = 10

/** Counts failures and all results over a window that slides in tenths. */
export class FailureWindow {
  readonly #slotMs: number
  readonly #failures = new Float64Array(SLOTS)
  readonly #results = new Float64Array(SLOTS)
  /** Number of the present slot since the start of the clock. */
  #at = 0

  constructor(windowMs: number) {
    this.#slotMs = windowMs / SLOTS
  }

  add(nowMs: number, failed: boolean): void {
    this.#slideTo(nowMs)
    const slot = this.#at % SLOTS
    this.#results[slot] = (this.#results[slot] ?? 0) + 1
    if (failed) this.#failures[slot] = (this.#failures[slot] ?? 0) + 1
  }

  /** Percentage of failures; 0 when there are fewer than `minResults`. */
  failurePercent(minResults: number): number {
    const results = sum(this.#results)
    return results < minResults ? 0 : (sum(this.#failures) * 100) / results
  }

  clear(): void {
    this.#failures.fill(0)
    this.#results.fill(0)
  }

  #slideTo(nowMs: number): void {
    const at = Math.floor(nowMs / this.#slotMs)
    const steps = Math.min(SLOTS, at - this.#at)
    for (let step = 1; step <= steps; step++) {
      const slot = (at - steps + step) % SLOTS
      this.#failures[slot] = 0
      this.#results[slot] = 0
    }
    if (at > this.#at) this.#at = at
  }
}

function sum(numbers: Float64Array): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}
