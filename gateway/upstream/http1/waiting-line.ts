export interface Waiter {
  /** Tries again to lease a connection. */
  tryAgain(): void
}

/** Requests that found every connection in use: first come, first served, at most `maxWaiting`. */
export class WaitingLine {
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

  /** Does nothing when it is not waiting. */
  remove(waiter: Waiter): void {
    this.#waiters.delete(waiter)
  }

  /** Call when a connection has become free, or a new one may be made. */
  next(): void {
    if (this.#waiters.size === 0) return
    const [first] = this.#waiters
    if (first === undefined) return
    this.#waiters.delete(first)
    first.tryAgain()
  }
}
