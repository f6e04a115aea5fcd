import timers from 'node:timers/promises'
import { DatabaseBusyError, DatabaseUnavailableError } from '../database/database.ts'

const FIRST_PAUSE_MS = 250
const LAST_PAUSE_MS = 5_000

/** True for a fault that may pass. A database is busy while another backend migrates it. */
export function mayPass(fault: unknown): fault is Error {
  return fault instanceof DatabaseUnavailableError || fault instanceof DatabaseBusyError
}

/** Repeats `work` until the database is there, with pauses from 250 ms to 5 s. Throws other faults at once. */
export async function whenAvailable<T>(
  work: () => Promise<T>,
  {
    onWait,
    signal,
  }: {
    /** Called after a failed attempt, with the time to the next one. */
    readonly onWait: (fault: Error, retryMs: number) => void
    /** Ends the waiting; the last error is thrown. */
    readonly signal: AbortSignal
  },
): Promise<T> {
  for (let retryMs = FIRST_PAUSE_MS; ; retryMs = Math.min(retryMs * 2, LAST_PAUSE_MS)) {
    try {
      return await work()
    } catch (fault) {
      if (!mayPass(fault) || signal.aborted) throw fault
      onWait(fault, retryMs)
      await timers.setTimeout(retryMs, undefined, { signal }).catch(() => {
        throw fault
      })
    }
  }
}
