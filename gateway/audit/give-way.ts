/** Nobody wakes who waits on it. */
const never = new Int32Array(new SharedArrayBuffer(4))
/** The kernel makes some 0.1 ms of it. */
const SHORT_MS = 0.05

/**
 * Sleeps without returning to the event loop. The default is a moment, so that requests need not wait where they share a
 * processor with this thread: a scheduler lets a thread that works go on for some milliseconds, whatever its priority is.
 */
export function giveWay(ms = SHORT_MS): void {
  Atomics.wait(never, 0, 0, ms)
}
