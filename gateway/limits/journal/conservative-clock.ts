import type { RowRecord } from '../table/row-matching.ts'
import type { Hit } from './journal-records.ts'

/**
 * What the time is at the latest by what an earlier run has left and the time since: a clock that was set forward before a
 * start is not believed when it comes to erasing something.
 */
export class ConservativeClock {
  readonly #startMs: number
  /** Time of the newest hit that was found. */
  #foundMs = Number.NEGATIVE_INFINITY

  constructor(startMs: number) {
    this.#startMs = startMs
  }

  /** A hit of an earlier run. */
  found(atMs: number): void {
    if (atMs > this.#foundMs) this.#foundMs = atMs
  }

  /** Never later than `nowMs`. */
  at(nowMs: number): number {
    if (this.#foundMs === Number.NEGATIVE_INFINITY) return nowMs
    return Math.min(nowMs, this.#foundMs + (nowMs - this.#startMs))
  }

  /** Those hits that no longer count at `nowMs`, but may when the clock is put right. */
  doubted(hits: readonly Hit[], rows: readonly RowRecord[], nowMs: number): Hit[] {
    const windows = new Map(rows.map((row) => [row.id, row.windowMs]))
    return hits.filter(({ id, atMs }) => {
      const windowMs = windows.get(id) ?? 0
      return nowMs - atMs >= windowMs && this.at(nowMs) - atMs < windowMs
    })
  }
}
