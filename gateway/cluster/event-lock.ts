/** Value of an unlocked lock. A locked one has the holder's seat plus 1, with WAITED_FOR set while threads wait. */
const FREE = 0
const WAITED_FOR = 1 << 30
/** A step takes about a microsecond, less than falling asleep. */
const SPINS = 200
/** Sleeping threads check the lock this often, because a thread that died wakes nobody. */
const CHECK_AGAIN_MS = 1

/** Location of the lock, and the thread that uses it. */
export interface LockPlace {
  /** Over shared memory. */
  readonly words: Int32Array
  /** Index of the word that is the lock. */
  readonly at: number
  /** The thread's number, from 0; unique among running threads. */
  readonly seat: number
}

/**
 * A lock between threads that names its holder, so that it can be released for a thread that died. Not fair, not
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

  /** Does not wait. @returns whether this thread holds the lock now */
  tryAcquire(): boolean {
    return Atomics.compareExchange(this.#words, this.#at, FREE, this.#me) === FREE
  }

  /** Spins for about as long as a step takes. @returns whether this thread holds the lock now */
  acquireSoon(): boolean {
    for (let spin = 0; spin < SPINS; spin++) if (this.tryAcquire()) return true
    return false
  }

  /** Waits for the lock. Calls `meanwhile` before each sleep. */
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
      Atomics.wait(this.#words, this.#at, waitedFor, CHECK_AGAIN_MS)
    }
  }

  /** Only the holder may call this. */
  release(): void {
    const held = Atomics.exchange(this.#words, this.#at, FREE)
    if ((held & WAITED_FOR) !== 0) Atomics.notify(this.#words, this.#at, 1)
  }

  /** Releases the lock if a thread holds it that has died. */
  releaseFor(seat: number): void {
    const held = Atomics.load(this.#words, this.#at)
    if ((held & ~WAITED_FOR) !== seat + 1) return
    // Waiters may set their flag in between; the dead holder changes nothing.
    Atomics.store(this.#words, this.#at, FREE)
    Atomics.notify(this.#words, this.#at)
  }
}
