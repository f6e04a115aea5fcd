/**
 * A clock in epoch milliseconds, with fractions: the wall time when this is called plus the monotonic time since. It
 * never jumps, so that setting the wall clock neither stretches nor empties a window.
 */
export function steadyClock(): () => number {
  const startMs = Date.now() - performance.now()
  return () => startMs + performance.now()
}
