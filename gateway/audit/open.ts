import { statSync } from 'node:fs'
import { makeDirectory } from './file.ts'
import { takeLock } from './lock.ts'
import { type Recovery, recover } from './recovery.ts'
import { STANDARD_OUTPUT } from './sink.ts'
import { Trail, type TrailOptions } from './trail.ts'

/** What went into a device or a pipe cannot be read again. */
const NOTHING_TO_RECOVER: Recovery = { records: [], cutBytes: 0, damagedLines: 0, unresolved: 0 }

/**
 * Begins the audit trail of this process, in the one order in which nothing can be lost: lock, mend what the last run
 * left, open, append the responses it did not write, AUDIT_START. A full disk does not stop it: the trail is then not
 * `writable` until there is room.
 *
 * @throws Error that names the file, when it cannot be used or another process is writing it.
 */
export function openTrail(options: Omit<TrailOptions, 'lock'>): Trail {
  const { file } = options
  if (file === STANDARD_OUTPUT || isDevice(file)) return begun(new Trail(options), NOTHING_TO_RECOVER)
  makeDirectory(file)
  const lock = takeLock(file)
  try {
    const recovery = recover(file)
    return begun(new Trail({ ...options, lock }), recovery)
  } catch (error) {
    lock.release()
    throw error
  }
}

function begun(trail: Trail, recovery: Recovery): Trail {
  trail.begin(recovery)
  return trail
}

/** Also a directory, which the trail itself refuses. */
function isDevice(file: string): boolean {
  try {
    return !statSync(file).isFile()
  } catch {
    return false
  }
}
