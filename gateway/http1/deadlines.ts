const SWEEP_MS = 50

/** Something that has to be over by some time. */
export interface Timed {
  /** Place in the list; belongs to Deadlines. */
  slot: number
  /** Looks whether time is up, and acts on it. */
  checkTime(nowMs: number): void
}

/**
 * Looks at everything that is under way every 50 ms. A deadline so kept is never early and at most 50 ms late (beside
 * what the event loop adds), and costs a request no timer: two writes to an array.
 */
export class Deadlines {
  readonly #clock: () => number
  readonly #timed: Timed[] = []
  #timer: NodeJS.Timeout | undefined = undefined

  /** @param clock milliseconds, monotonic. */
  constructor(clock: () => number) {
    this.#clock = clock
  }

  add(timed: Timed): void {
    timed.slot = this.#timed.push(timed) - 1
    // Connections hold the process, not this timer.
    this.#timer ??= setTimeout(() => this.#sweep(), SWEEP_MS).unref()
  }

  /** Only for what was added and not yet removed. */
  remove(timed: Timed): void {
    const last = this.#timed.pop()
    if (last === undefined || last === timed) return
    last.slot = timed.slot
    this.#timed[timed.slot] = last
  }

  #sweep(): void {
    const nowMs = this.#clock()
    // Backwards, because whoever is out of time removes itself and the last takes its place; it may remove others too.
    for (let i = this.#timed.length - 1; i >= 0; i--) this.#timed[i]?.checkTime(nowMs)
    this.#timer = this.#timed.length === 0 ? undefined : this.#timer?.refresh()
  }
}
