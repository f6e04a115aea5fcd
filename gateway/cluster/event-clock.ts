/** Epoch milliseconds at which the system's monotonic clock was 0; lets all threads derive the same clock. */
export function clockOrigin(): number {
  return Date.now() - systemMs()
}

/**
 * A monotonic clock in epoch milliseconds with fractions. Threads with the same origin agree to a few microseconds, though
 * `performance.now` starts at a different moment in each of them.
 */
export function commonClock(originMs: number): () => number {
  const offsetMs = originMs + systemMs() - performance.now()
  return () => offsetMs + performance.now()
}

/** The monotonic clock of the system. */
function systemMs(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1000 + nanoseconds / 1e6
}
