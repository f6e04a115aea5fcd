/** The part of the room that is first come, first served. */
const UNSHARED = 3 / 4

/**
 * Tells whether one caller is over its share of a common room. While more than a quarter is free, nobody is. After that, a caller is over
 * its share when it holds more than what is still free. So one caller alone leaves a quarter, and another then leaves an eighth.
 */
export function isOverShare({ own, free, max }: { own: number; free: number; max: number }): boolean {
  return free <= max * (1 - UNSHARED) && own > free
}

/** A bounded number of permits. When few are left, a caller that holds more than its share is refused and others are not. */
export class FairPermits {
  readonly #held = new Map<string, number>()
  #max: number
  #taken = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Changes the bound. Permits beyond it stay taken until they are released. */
  bound(max: number): void {
    this.#max = max
  }

  get taken(): number {
    return this.#taken
  }

  /** True when every new caller is refused. */
  get areExhausted(): boolean {
    return this.#taken >= this.#max
  }

  /** @param isProxy the caller acts for many, so its share is not limited @returns false when refused */
  take(caller: string, isProxy: boolean): boolean {
    const max = this.#max
    const free = max - this.#taken
    const own = this.#held.get(caller) ?? 0
    if (free <= 0 || (!isProxy && isOverShare({ own, free, max }))) return false
    this.#held.set(caller, own + 1)
    this.#taken += 1
    return true
  }

  release(caller: string): void {
    const own = this.#held.get(caller) ?? 1
    if (own === 1) this.#held.delete(caller)
    else this.#held.set(caller, own - 1)
    this.#taken -= 1
  }
}
