import type { Limiter } from './limiter.ts'
import type { LimitRow } from './table/limit-row.ts'
import type { LimitPolicy } from './table/limit-table.ts'
import type { Take } from './windows/window.ts'

/** A turn in the common order of all threads: only one thread is in it at a time. */
interface Step {
  enter(): void
  leave(): void
}

/** One of several identical limiters in several threads: each take is one turn in their common order. */
export class SharedLimiter {
  readonly #limiter: Limiter
  readonly #step: Step

  constructor(limiter: Limiter, step: Step) {
    this.#limiter = limiter
    this.#step = step
  }

  /** See Limiter.find. */
  find(path: string, method: string): LimitPolicy | undefined {
    return this.#limiter.find(path, method)
  }

  /** See Limiter.take; exact across all copies. */
  take(row: LimitRow, key: string): Take {
    this.#step.enter()
    try {
      return this.#limiter.take(row, key)
    } finally {
      this.#step.leave()
    }
  }

  /** Does nothing: the thread with the journal writes the counts. */
  close(): void {}
}
