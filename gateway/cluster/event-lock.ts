/** The word when nobody holds the lock; otherwise the holder's seat plus 1, with or without WAITED_FOR. */
const FREE = 0
const WAITED_FOR = 1 << 30
/** A step takes about a microsecond: on another core it is over before this thread would have gone to sleep. */
const SPINS = 200
/** Nobody wakes the waiters of a thread that died; who sleeps looks again after this time. */
const LOOK_AGAIN_MS = 1

/** Where the lock is, and who asks for it. */
export interface LockPlace {
  /** Over shared memory. */
  readonly words: Int32Array
  /** Index of the word that is the lock. */
  readonly at: number
  /** The thread's number, from 0; no two that live have the same. */
  readonly seat: number
}

/**
 * A lock between threads that says who holds it, so that what a dead thread held can be given up for it. Not fair, not
 * re-entrant.
 */
export class SharedLock {
  readonly #words: Int32Array
  readonly #at: number
  readonly #me: number

  constructor({ words, at, seat }: LockPlace) {
    this.#words = words
    this.#at = at
    this.#me = seat + 1
  }

  /** Whether this thread has it now; does not wait. */
  tryAcquire(): boolean {
    return Atomics.compareExchange(this.#words, this.#at, FREE, this.#me) === FREE
  }

  /** Whether this thread has it after as long as a step of another takes. */
  acquireSoon(): boolean {
    for (let spin = 0; spin < SPINS; spin++) if (this.tryAcquire()) return true
    return false
  }

  /** Waits until this thread has it. `meanwhile` is called before each sleep. */
  acquire(meanwhile: () => void): void {
    if (this.acquireSoon()) return
    const mine = this.#me | WAITED_FOR
    for (;;) {
      const held = Atomics.load(this.#words, this.#at)
      if (held === FREE) {
        // Others may still be asleep.
        if (Atomics.compareExchange(this.#words, this.#at, FREE, mine) === FREE) return
        continue
      }
      const waitedFor = held | WAITED_FOR
      if (Atomics.compareExchange(this.#words, this.#at, held, waitedFor) !== held) continue
      meanwhile()
      Atomics.wait(this.#words, this.#at, waitedFor, LOOK_AGAIN_MS)
    }
  }

  /** To be called by the holder only. */
  release(): void {
    const held = Atomics.exchange(this.#words, this.#at, FREE)
    if ((held & WAITED_FOR) !== 0) Atomics.notify(this.#words, this.#at, 1)
  }

  /** Gives up what a thread held that no longer runs. */
  releaseFor(seat: number): void {
    const held = Atomics.load(this.#words, this.#at)
    if ((held & ~WAITED_FOR) !== seat + 1) return
    // Waiters may set their flag in between; the holder itself can change nothing any more.
    Atomics.store(this.#words, this.#at, FREE)
    Atomics.notify(this.#words, this.#at)
  }
}
