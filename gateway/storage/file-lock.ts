import { closeSync, existsSync, openSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'

/** Held until released or until the process ends, however it ends. */
export interface AuditLock {
  /** `false`: this system or file system cannot lock, so nothing is held. */
  readonly held: boolean
  /** Taken anew if what it is held on was removed. @throws Error that names the file, when another process has it now. */
  renewed(): AuditLock
  release(): void
}

const UNLOCKED: AuditLock = { held: false, renewed: () => UNLOCKED, release: () => {} }

/** SQLITE_BUSY (sqlite.org/rescode.html): the one answer which means that somebody else holds the lock. */
const SQLITE_BUSY = 5

/** What holds locks, for otherwise the garbage collector could close it, and the lock with it. */
const holders = new Set<object>()

/**
 * Makes this process the only one that writes an audit file. A second writer would take the open requests of the first
 * for those of a crash and would cut a line that is just being written.
 *
 * The lock is the kernel's own (fcntl, section "Advisory record locking" of POSIX) on an empty file beside the trail,
 * taken through SQLite because Node has no call for it. The kernel drops it when its process dies, so after `kill -9` it
 * cannot be stale, whatever pid comes next, in a container or not; no pid is ever compared. Where no lock can be had
 * (a file system without locks, a directory that cannot be written, a Node built without SQLite) the trail runs without.
 *
 * @param file the audit file; its directory must exist.
 * @throws Error that names the file, when another process holds it.
 */
export function takeLock(file: string): AuditLock {
  const sqlite = process.getBuiltinModule('node:sqlite')
  if (sqlite === undefined) return UNLOCKED
  const path = lockPath(file)
  let database: InstanceType<typeof sqlite.DatabaseSync> | undefined
  try {
    // Only a missing file is opened here: closing any descriptor of a locked one drops the lock (POSIX `fcntl`).
    if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
    database = new sqlite.DatabaseSync(path, { timeout: 0 })
    // Nothing is ever written, so no journal is wanted beside it.
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
  } catch (error) {
    database?.close()
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) return UNLOCKED
    throw new Error(`audit file ${file} is being written by another process, which holds ${path}`, {
      cause: error,
    })
  }
  return heldBy(database, file, path)
}

function heldBy(database: { close(): void }, file: string, path: string): AuditLock {
  holders.add(database)
  const release = () => {
    holders.delete(database)
    database.close()
  }
  const renewed = () => {
    if (existsSync(path)) return lock
    const next = takeLock(file)
    release()
    return next
  }
  const lock: AuditLock = { held: true, renewed, release }
  return lock
}

/** Beside the real file, so that two names of one file are one lock. */
function lockPath(file: string): string {
  let real: string
  try {
    real = realpathSync(file)
  } catch {
    real = join(realpathSync(dirname(file)), basename(file))
  }
  return `${real}.lock`
}
