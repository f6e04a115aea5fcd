/** Time, as what needs it takes it: tests have their own. */
export interface StoreTimers {
  /** Milliseconds that never go back. */
  nowMs(): number
  /** Calls `run` after `ms`. @returns takes it back */
  after(ms: number, run: () => void): () => void
  /** Calls `run` when what has arrived by now has been read. */
  soon(run: () => void): void
  /** A random number from 0 to 1, for jitter. */
  random(): number
}

export const REAL_TIMERS: StoreTimers = {
  nowMs: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref()
    return () => clearTimeout(timer)
  },
  soon: (run) => void setImmediate(run),
  random: () => Math.random(),
}
