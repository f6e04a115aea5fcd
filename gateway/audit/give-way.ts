const never = new Int32Array(new SharedArrayBuffer(4))
/** The kernel makes some 0.1 ms of it. */
const SHORT_MS = 0.05

/** Sleeps without returning to the event loop: the default, a moment, lets requests run that share a processor with this thread. */
export function giveWay(ms = SHORT_MS): void {
  Atomics.wait(never, 0, 0, ms)
}
