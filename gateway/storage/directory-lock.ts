import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/**
 * Keeps every other process out of a directory until the returned function is called or the process dies, however
 * it dies. Throws when another holds it.
 *
 * Node has no file locks of its own; SQLite, which is part of Node, has: the kernel gives them up with the process,
 * so there is no stale lock after a crash, which a file holding a process id cannot promise (in a container every
 * gateway is process 1).
 */
export function lockDirectory(directory: string): () => void {
  const file = lockFile(directory)
  closeSync(openSync(file, 'a', 0o600))
  const database = new DatabaseSync(file)
  try {
    database.exec('PRAGMA journal_mode=OFF; BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    throw new Error(`${directory} is in use by another gateway, or cannot be locked`, { cause: error })
  }
  return () => database.close()
}

/** What the lock is held on. */
export function lockFile(directory: string): string {
  return join(directory, 'lock')
}
