/** Value of an unlocked lock. A locked one has its holder plus 1, with WAITED_FOR set while threads wait. */
const FREE = 0
const WAITED_FOR = 1 << 30
/** What the lock protects takes microseconds, less than falling asleep. */
const SPINS = 200
/** Sleeping threads check the lock this often, because a thread that died wakes nobody. */
const CHECK_AGAIN_MS = 1

/**
 * A lock between threads that names its holder, so that it can be taken over from a thread that died. Not fair, not
 * re-entrant.
 */
export class SharedLock {
  readonly #words: Int32Array
  readonly #at: number
  readonly #me: number

  /**
   * @param words over shared memory.
   * @param at index of the word that is the lock.
   * @param thread number of this thread, from 0; unique among running threads.
   */
  constructor(words: Int32Array, at: number, thread: number) {
    this.#words = words
    this.#at = at
    this.#me = thread + 1
  }

  /** The thread that holds the lock; -1 when none does. */
  get holder(): number {
    return (Atomics.load(this.#words, this.#at) & ~WAITED_FOR) - 1
  }

  /** Does not wait. @returns whether this thread holds the lock now */
  tryAcquire(): boolean {
    return Atomics.compareExchange(this.#words, this.#at, FREE, this.#me) === FREE
  }

  /** Spins for some microseconds. @returns whether this thread holds the lock now */
  acquireSoon(): boolean {
    for (let spin = 0; spin < SPINS; spin++) if (this.tryAcquire()) return true
    return false
  }

  /**
   * Calls `beforeSleep` before each sleep.
   *
   * @returns false when others held the lock for all of `timeoutMs`. The clock alone does not decide: on a machine without
   * a processor to spare this thread may get few chances to look, and finds the lock held by one thread after another.
   */
  acquire(timeoutMs: number, beforeSleep?: () => void): boolean {
    if (this.acquireSoon()) return true
    const deadline = performance.now() + timeoutMs
    const minChecks = timeoutMs / CHECK_AGAIN_MS / 2
    let checks = 0
    for (;;) {
      const held = Atomics.load(this.#words, this.#at)
      if (held === FREE) {
        // Others may still be asleep.
        if (this.#replace(FREE, this.#me | WAITED_FOR)) return true
        continue
      }
      if (checks >= minChecks && performance.now() >= deadline) return false
      if (!this.#replace(held, held | WAITED_FOR)) continue
      beforeSleep?.()
      Atomics.wait(this.#words, this.#at, held | WAITED_FOR, CHECK_AGAIN_MS)
      checks++
    }
  }

  /** Only the holder may call this. */
  release(): void {
    const held = Atomics.exchange(this.#words, this.#at, FREE)
    if ((held & WAITED_FOR) !== 0) Atomics.notify(this.#words, this.#at, 1)
  }

  /** Takes the lock over from a thread that died. @returns false when that thread does not hold it */
  takeFrom(thread: number): boolean {
    for (;;) {
      const held = Atomics.load(this.#words, this.#at)
      if ((held & ~WAITED_FOR) !== thread + 1) return false
      // Waiters may set their flag in between; the dead holder changes nothing.
      if (this.#replace(held, this.#me | WAITED_FOR)) return true
    }
  }

  #replace(expected: number, value: number): boolean {
    return Atomics.compareExchange(this.#words, this.#at, expected, value) === expected
  }
}
