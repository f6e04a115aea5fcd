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

  /** @returns false when nothing is left. */
  spend(nowMs: number): boolean {
    if (this.#left < 1) this.earn((nowMs - this.#atMs) * this.#perMs, nowMs)
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }

  /** Something has happened that goes with it. */
  earn(times: number, nowMs = this.#atMs): void {
    this.#left = Math.min(this.#burst, this.#left + times)
    this.#atMs = nowMs
  }
}
