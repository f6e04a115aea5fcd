import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { inodeOf } from './regular-file.ts'

/** Held until its release or the end of the process. */
export interface ProcessLock {
  readonly held: boolean
  /** Set when the system has no locks, or the lock file cannot be opened. */
  readonly fault: Error | undefined
  /** True when another process could take the lock, as its file was removed or replaced. @throws Error of the system */
  readonly isRemoved: boolean
  /** Takes a removed or released lock. @throws Error when another process has it; this lock stays as it is */
  renewed(): ProcessLock
  release(): void
}

interface ProcessLockOptions {
  /** An empty file, which is made when it is missing. Its directory must exist. */
  readonly path: string
  readonly whenTaken: string
}

/** sqlite.org/rescode.html: another connection holds the lock. */
const SQLITE_BUSY = 5

/** Without a reference, the garbage collector would close databases and drop their locks. */
const held = new Set<DatabaseSync>()

/**
 * Takes an exclusive lock between processes, without waiting. SQLite takes the kernel's lock (fcntl, POSIX "Advisory
 * record locking"), for which Node has no call. It ends with the process, so it is never stale.
 * @throws Error `whenTaken`, when another process holds the lock
 */
export function takeProcessLock(options: ProcessLockOptions): ProcessLock {
  const { path, whenTaken } = options
  let database: DatabaseSync | undefined
  try {
    // Closing a descriptor of an existing file would drop a lock of this process (POSIX `fcntl`).
    if (inodeOf(path) === undefined) closeSync(openSync(path, 'a', 0o600))
    database = new DatabaseSync(path, { timeout: 0 })
    // This mode needs no journal file.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    database?.close()
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) return unheld(error as Error)
    throw new Error(whenTaken, { cause: error })
  }
  return heldBy(database, options)
}

function unheld(fault: Error): ProcessLock {
  const lock: ProcessLock = { held: false, fault, isRemoved: false, renewed: () => lock, release: () => {} }
  return lock
}

function heldBy(database: DatabaseSync, options: ProcessLockOptions): ProcessLock {
  const inode = inodeOf(options.path)
  held.add(database)
  const lock: ProcessLock = {
    held: true,
    fault: undefined,
    get isRemoved() {
      return inodeOf(options.path) !== inode
    },
    renewed() {
      if (held.has(database) && !lock.isRemoved) return lock
      const next = takeProcessLock(options)
      // Without a new lock this lock stays. Its open file keeps the inode, so `isRemoved` stays true.
      if (next.held) lock.release()
      return next
    },
    release() {
      if (held.delete(database)) database.close()
    },
  }
  return lock
}
