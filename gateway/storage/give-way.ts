const never = new Int32Array(new SharedArrayBuffer(4))
/** The kernel makes some 0.1 ms of it. */
const SLEEP_MS = 0.05

/**
 * Sleeps for a moment, so that requests whose thread shares a processor with this one need not wait: a scheduler lets a thread
 * that works go on for some milliseconds, whatever its priority is.
 */
export function giveWay(): void {
  Atomics.wait(never, 0, 0, SLEEP_MS)
}
