/** Something that waits for a connection to become free. */
export interface Waiter {
  /** Looks for a connection again. */
  tryAgain(): void
}

/** Calls that found every connection in use: first come, first served, and never more than `maxWaiting`. */
export class Waiting {
  readonly #maxWaiting: number
  readonly #waiters = new Set<Waiter>()

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting
  }

  get isFull(): boolean {
    return this.#waiters.size >= this.#maxWaiting
  }

  add(waiter: Waiter): void {
    this.#waiters.add(waiter)
  }

  /** Of one that does not wait it does nothing. */
  remove(waiter: Waiter): void {
    this.#waiters.delete(waiter)
  }

  /** A connection has become free, or there is room for a new one. */
  next(): void {
    if (this.#waiters.size === 0) return
    const [first] = this.#waiters
    if (first === undefined) return
    this.#waiters.delete(first)
    first.tryAgain()
  }
}
