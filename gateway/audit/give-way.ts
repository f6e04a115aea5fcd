const never = new Int32Array(new SharedArrayBuffer(4))
/** Shortest sleep: in practice about 0.1 ms. */
const SHORT_MS = 0.05

/** Sleeps without returning to the event loop, so that requests on the same processor can run. */
export function giveWay(ms = SHORT_MS): void {
  Atomics.wait(never, 0, 0, ms)
}
