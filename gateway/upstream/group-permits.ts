import { isOverShare } from '../edge/rules/fair-share.ts'

/** Limits the exchanges that use one upstream group at a time, and what one caller may take of them. */
export class GroupPermits<Caller extends { readonly isProxy: boolean }> {
  #max: number
  #taken = 0
  readonly #held = new Map<Caller, number>()

  constructor(max: number) {
    this.#max = max
  }

  /** More may be taken already: they are given back one by one. */
  bound(max: number): void {
    this.#max = max
  }

  /** @returns false when refused */
  take(caller: Caller): boolean {
    const max = this.#max
    const free = max - this.#taken
    const own = this.#held.get(caller) ?? 0
    if (free <= 0 || (!caller.isProxy && isOverShare({ own, free, max }))) return false
    this.#held.set(caller, own + 1)
    this.#taken += 1
    return true
  }

  release(caller: Caller): void {
    const own = this.#held.get(caller) ?? 1
    if (own === 1) this.#held.delete(caller)
    else this.#held.set(caller, own - 1)
    this.#taken -= 1
  }
}
