import type { RowRecord } from '../table/row-matching.ts'
import type { Hit } from './journal-records.ts'

/**
 * Bounds the current time by the newest hit of earlier runs plus the time since the start, so that a wall clock that is
 * ahead does not cause anything to be deleted.
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

  /** The hits that have expired at `nowMs`, but perhaps only because the clock is ahead. */
  doubted(hits: readonly Hit[], rows: readonly RowRecord[], nowMs: number): Hit[] {
    const windows = new Map(rows.map((row) => [row.id, row.windowMs]))
    return hits.filter(({ id, atMs }) => {
      const windowMs = windows.get(id) ?? 0
      return nowMs - atMs >= windowMs && this.at(nowMs) - atMs < windowMs
    })
  }
}
