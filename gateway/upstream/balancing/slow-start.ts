const SMALLEST_SHARE = 0.1

/** Gives a target that has recovered less than its share for a time: from a tenth, growing steadily. */
export class SlowStart {
  readonly #durationMs: number
  readonly #clock: () => number
  /** Part of a turn that has been gathered. */
  #credit = 0

  /** @param clock milliseconds, monotonic. */
  constructor(durationMs: number, clock: () => number) {
    this.#durationMs = durationMs
    this.#clock = clock
  }

  /** Share of a target that recovered then: from 0.1 to 1. */
  share(recoveredAtMs: number): number {
    const share = (this.#clock() - recoveredAtMs) / this.#durationMs
    return share >= 1 ? 1 : Math.max(SMALLEST_SHARE, share)
  }

  /** Whether it takes the request that it would get. */
  takesTurn(recoveredAtMs: number): boolean {
    this.#credit += this.share(recoveredAtMs)
    if (this.#credit < 1) return false
    this.#credit -= 1
    return true
  }
}
