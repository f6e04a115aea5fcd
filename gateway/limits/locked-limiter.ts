import type { Limiter } from './limiter.ts'
import type { LimitRow } from './table/limit-row.ts'
import type { LimitPolicy } from './table/limit-table.ts'
import type { Take } from './windows/window.ts'

/** The lock that all threads share. */
interface SharedLock {
  enter(): void
  leave(): void
}

/** One of several equal limiters in several threads: each take holds their shared lock. */
export class LockedLimiter {
  readonly #limiter: Limiter
  readonly #lock: SharedLock

  constructor(limiter: Limiter, lock: SharedLock) {
    this.#limiter = limiter
    this.#lock = lock
  }

  /** See Limiter.find. */
  find(path: string, method: string): LimitPolicy | undefined {
    return this.#limiter.find(path, method)
  }

  /** See Limiter.take; exact across all copies. */
  take(row: LimitRow, key: string): Take {
    this.#lock.enter()
    try {
      return this.#limiter.take(row, key)
    } finally {
      this.#lock.leave()
    }
  }

  /** Does nothing: the thread with the journal writes the counts. */
  close(): void {}
}
