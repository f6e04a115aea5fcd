import { readFileSync } from 'node:fs'

/** What the process itself keeps open, generously: logs, trail, journal, libraries, listeners, the admin's clients. */
const OWN_FILES = 256
/** Where the system does not say. */
const ASSUMED_FILES = 10_240
const LEAST_CONNECTIONS = 64

/**
 * How many connections of clients one thread may have open: what the system allows in open files, less what is needed for
 * upstream connections (each exchange may have one, and another be idle; each tunnel has one) and for the process itself. Without such a bound idle
 * clients would take the files that those who ask for something need.
 */
export function connectionRoom(
  {
    maxInFlight,
    maxTunnels,
    workers,
  }: { readonly maxInFlight: number; readonly maxTunnels: number; readonly workers: number },
  files: number = openFiles(),
): number {
  const left = files - OWN_FILES - 2 * maxInFlight - maxTunnels
  return Math.floor(Math.max(left, files / 4, LEAST_CONNECTIONS) / workers)
}

/** The limit in force, which Node has raised as far as it may. */
function openFiles(): number {
  try {
    const soft = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? ASSUMED_FILES)
  } catch {
    return ASSUMED_FILES
  }
}
