import { readFileSync } from 'node:fs'

/** A generous estimate of files that the process itself keeps open: logs, trail, journal, listeners, admin clients. */
const OWN_FILES = 256
/** Assumed limit where the system does not tell it. */
const ASSUMED_FILES = 10_240
const LEAST_CONNECTIONS = 64

/**
 * How many client connections may be open: the limit on open files, less those for upstream connections (two
 * for each exchange, one for each tunnel) and for the process itself. Without this bound, idle clients could use up the
 * files that active ones need.
 */
export function connectionRoom(
  { maxInFlight, maxTunnels }: { readonly maxInFlight: number; readonly maxTunnels: number },
  files: number = openFiles(),
): number {
  const left = files - OWN_FILES - 2 * maxInFlight - maxTunnels
  return Math.floor(Math.max(left, files / 4, LEAST_CONNECTIONS))
}

/** The soft limit of the process. Node raises it to the hard limit at start. */
function openFiles(): number {
  try {
    const soft = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? ASSUMED_FILES)
  } catch {
    return ASSUMED_FILES
  }
}
