/** What makes the clocks of several threads one: epoch milliseconds of the moment from which the system counts. */
export function clockOrigin(): number {
  return Date.now() - systemMs()
}

/**
 * Epoch milliseconds, with fractions, that never run back. With the same origin the clocks of all threads agree to a few
 * microseconds: `performance.now` of each begins at another moment, but all count the same seconds.
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
