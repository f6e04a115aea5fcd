/**
 * Epoch milliseconds, with fractions, that never step and never run back during a run: the wall time at the call plus
 * the monotonic clock since. A wall clock set back at noon would otherwise stretch every window, and one set forward
 * would empty them.
 */
export function steadyClock(): () => number {
  const startMs = Date.now() - performance.now()
  return () => startMs + performance.now()
}
