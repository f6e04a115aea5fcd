import { Slots, type Slotted } from './slots.ts'

const SWEEP_MS = 50

export interface Timed extends Slotted {
  checkTime(nowMs: number): void
}

/** Calls `run` later, if the process still runs. @returns a function that cancels the call */
export function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms).unref()
  return () => clearTimeout(timer)
}

/** Objects whose deadlines are checked every 50 ms. A timer for each object would cost more. */
export class Deadlines<T extends Timed = Timed> extends Slots<T> {
  readonly #clock: () => number
  #timer: NodeJS.Timeout | undefined = undefined

  /** @param clock milliseconds, monotonic */
  constructor(clock: () => number) {
    super()
    this.#clock = clock
  }

  override add(timed: T): void {
    super.add(timed)
    this.#timer ??= setTimeout(() => this.#sweep(), SWEEP_MS).unref()
  }

  #sweep(): void {
    const nowMs = this.#clock()
    this.visitAll((timed) => {
      timed.checkTime(nowMs)
    })
    this.#timer = this.size === 0 ? undefined : this.#timer?.refresh()
  }
}
