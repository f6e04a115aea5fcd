import { Slots, type Slotted } from './slots.ts'

const SWEEP_MS = 50

/** Something that has to be over by some time. */
export interface Timed extends Slotted {
  /** Looks whether time is up, and acts on it. */
  checkTime(nowMs: number): void
}

/**
 * Looks at everything that is under way every 50 ms. A deadline so kept is never early and at most 50 ms late (beside
 * what the event loop adds), and costs a request no timer: two writes to an array.
 */
export class Deadlines<T extends Timed = Timed> {
  readonly #clock: () => number
  readonly #timed = new Slots<T>()
  #timer: NodeJS.Timeout | undefined = undefined

  /** @param clock milliseconds, monotonic. */
  constructor(clock: () => number) {
    this.#clock = clock
  }

  /** How many have been added and not removed. */
  get size(): number {
    return this.#timed.size
  }

  /** Goes through all of them; `visit` may remove any. */
  visitAll(visit: (timed: T) => void): void {
    this.#timed.visitAll(visit)
  }

  add(timed: T): void {
    this.#timed.add(timed)
    // Connections hold the process, not this timer.
    this.#timer ??= setTimeout(() => this.#sweep(), SWEEP_MS).unref()
  }

  /** Only for what was added and not yet removed. */
  remove(timed: T): void {
    this.#timed.remove(timed)
  }

  #sweep(): void {
    const nowMs = this.#clock()
    // Whoever is out of time removes itself, and may remove others too.
    this.#timed.visitAll((timed) => {
      timed.checkTime(nowMs)
    })
    this.#timer = this.#timed.size === 0 ? undefined : this.#timer?.refresh()
  }
}
