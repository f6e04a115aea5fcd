import { join } from 'node:path'
import { type ProcessLock, takeProcessLock } from '../../storage/process-lock.ts'

/** Keeps other gateways out of a journal's directory. @throws Error when another holds it or it cannot be locked. */
export function lockJournal(directory: string): ProcessLock {
  const path = join(directory, 'lock')
  return mustHold(
    directory,
    takeProcessLock({ path, whenTaken: `${directory} is in use by another gateway` }),
  )
}

/** Locks it again if the lock file was removed. @throws Error as `lockJournal`; `lock` stays as it is then. */
export function relockJournal(directory: string, lock: ProcessLock): ProcessLock {
  return mustHold(directory, lock.renewed())
}

/** Without a lock two gateways would remove each other's hits. */
function mustHold(directory: string, lock: ProcessLock): ProcessLock {
  if (lock.held) return lock
  throw new Error(`${directory} cannot be locked: ${lock.fault?.message}`, { cause: lock.fault })
}
