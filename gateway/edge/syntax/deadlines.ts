import { Slots, type Slotted } from './slots.ts'

const SWEEP_MS = 50

export interface Timed extends Slotted {
  checkTime(nowMs: number): void
}

/**
 * Checks everything that has a deadline every 50 ms. A deadline is never early and at most 50 ms late (plus the delay of
 * the event loop), and costs a request two writes to an array instead of a timer.
 */
export class Deadlines<T extends Timed = Timed> {
  readonly #clock: () => number
  readonly #timed = new Slots<T>()
  #timer: NodeJS.Timeout | undefined = undefined

  /** @param clock milliseconds, monotonic. */
  constructor(clock: () => number) {
    this.#clock = clock
  }

  get size(): number {
    return this.#timed.size
  }

  /** `visit` may remove any of them. */
  visitAll(visit: (timed: T) => void): void {
    this.#timed.visitAll(visit)
  }

  add(timed: T): void {
    this.#timed.add(timed)
    // Connections keep the process alive, not this timer.
    this.#timer ??= setTimeout(() => this.#sweep(), SWEEP_MS).unref()
  }

  /** Does nothing when it was removed already. */
  remove(timed: T): void {
    this.#timed.remove(timed)
  }

  #sweep(): void {
    const nowMs = this.#clock()
    // One whose time is up removes itself, and may remove others too.
    this.#timed.visitAll((timed) => {
      timed.checkTime(nowMs)
    })
    this.#timer = this.#timed.size === 0 ? undefined : this.#timer?.refresh()
  }
}
