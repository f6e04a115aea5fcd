import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { inodeOf } from './regular-file.ts'

/** Held until it is released or the process ends, however it ends. */
export interface ProcessLock {
  readonly held: boolean
  /** Why nothing is held: this file system has no locks, or the lock file cannot be opened. */
  readonly fault: Error | undefined
  /** The lock file was removed or replaced, so another process could take the lock. @throws Error of the system when it cannot be told */
  readonly isRemoved: boolean
  /** Takes the lock again if its file was removed or it was released. @throws Error when another process has it now; this one stays as it is. */
  renewed(): ProcessLock
  release(): void
}

interface ProcessLockOptions {
  /** The lock file: empty, mode 0600, made when missing. Its directory must exist. */
  readonly path: string
  /** Message of the error thrown when another process holds the lock. */
  readonly whenTaken: string
}

/** SQLITE_BUSY (sqlite.org/rescode.html): the only code that means another connection holds the lock. */
const SQLITE_BUSY = 5

/** Keeps the databases from the garbage collector, which would close them and so drop their locks. */
const held = new Set<DatabaseSync>()

/**
 * Takes an exclusive lock between processes, without waiting. Where no lock can be had the result is not `held` and says
 * why; the caller decides whether to go on.
 *
 * The lock is the kernel's (fcntl, POSIX "Advisory record locking"), taken through SQLite because Node has no call for it.
 * The kernel drops it when the process dies, so it is never stale and no process id is compared.
 *
 * @throws Error `whenTaken`, when another process holds the lock.
 */
export function takeProcessLock(options: ProcessLockOptions): ProcessLock {
  const { path, whenTaken } = options
  let database: DatabaseSync | undefined
  try {
    // An existing file is not opened here: closing any descriptor of it would drop a lock of this process (POSIX `fcntl`).
    if (inodeOf(path) === undefined) closeSync(openSync(path, 'a', 0o600))
    database = new DatabaseSync(path, { timeout: 0 })
    // Nothing is written, so no journal file is wanted beside it.
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
      // Kept otherwise: an open file's inode is not given to another, so `isRemoved` stays true.
      if (next.held) lock.release()
      return next
    },
    release() {
      if (held.delete(database)) database.close()
    },
  }
  return lock
}
