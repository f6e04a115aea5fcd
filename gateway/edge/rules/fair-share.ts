/** The part of the room that is first come, first served. */
const UNSHARED = 3 / 4

/** True when at most a quarter of a common room is free, and the caller holds more than is free. */
export function isOverShare({ own, free, max }: { own: number; free: number; max: number }): boolean {
  return free <= max * (1 - UNSHARED) && own > free
}

/** A bounded number of permits, in fair shares. */
export class FairPermits {
  readonly #held = new Map<string, number>()
  #max: number
  #taken = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Permits beyond the bound stay taken until they are released. */
  bound(max: number): void {
    this.#max = max
  }

  get taken(): number {
    return this.#taken
  }

  get areExhausted(): boolean {
    return this.#taken >= this.#max
  }

  /** @param isProxy true when the caller acts for many, so its share is not limited @returns false when refused */
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
