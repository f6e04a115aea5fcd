import type { Limiter } from './limiter.ts'
import type { LimitPolicy } from './table/limit-lookup.ts'
import type { LimitRow } from './table/limit-row.ts'
import type { Take } from './windows/window.ts'

/** One step in the order that all threads keep. */
interface Step {
  enter(): void
  leave(): void
}

/** A limiter that is one of several copies: each take is a step in their common order. */
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

  /** See Limiter.take: exact over all copies. */
  take(row: LimitRow, key: string): Take {
    this.#step.enter()
    try {
      return this.#limiter.take(row, key)
    } finally {
      this.#step.leave()
    }
  }

  /** The counts are kept by the thread that has the journal. */
  close(): void {}
}
