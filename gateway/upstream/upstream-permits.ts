import { isOverShare } from '../edge/rules/fair-share.ts'

/**
 * Limits the exchanges that use all upstreams, or one group, at a time. When few permits are left, a caller with more than
 * its share is refused and others are not.
 */
export class UpstreamPermits {
  readonly #held = new Map<string, number>()
  #max: number
  #taken = 0

  constructor(max: number) {
    this.#max = max
  }

  /** More may be taken already: they are given back one by one. */
  bound(max: number): void {
    this.#max = max
  }

  get taken(): number {
    return this.#taken
  }

  get areExhausted(): boolean {
    return this.#taken >= this.#max
  }

  /** @param isProxy it acts for many, so its share is not limited @returns false when refused */
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
