/** How often something may happen: a bucket that is full at first, and fills with time. */
export class Allowance {
  readonly #burst: number
  readonly #perMs: number
  #left: number
  #atMs: number

  constructor({ burst, perSecond }: { readonly burst: number; readonly perSecond: number }, nowMs: number) {
    this.#burst = burst
    this.#perMs = perSecond / 1000
    this.#left = burst
    this.#atMs = nowMs
  }

  /** @returns false when not as much is left. */
  spend(nowMs: number, times = 1): boolean {
    if (this.#left < times) this.earn((nowMs - this.#atMs) * this.#perMs, nowMs)
    if (this.#left < times) return false
    this.#left -= times
    return true
  }

  /** Something has happened that goes with it. */
  earn(times: number, nowMs = this.#atMs): void {
    this.#left = Math.min(this.#burst, this.#left + times)
    this.#atMs = nowMs
  }
}
