import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The only code that means that another connection holds the lock (sqlite.org/rescode.html). */
const SQLITE_BUSY = 5

/** Another process has the data directory open. */
export class DirectoryInUseError extends Error {
  override name = 'DirectoryInUseError'
}

/**
 * Takes the directory for this process and returns the function that releases it. Throws {@link DirectoryInUseError}
 * when it is taken: two engines on the same files would destroy them. Any other fault names the file.
 *
 * The lock is SQLite's on a file of its own, because Node has no file lock. It is a lock of the kernel: it ends with the
 * process in any case, and works between containers that share a volume. A file with a process id does neither.
 */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, 'lock')
  let file: DatabaseSync | undefined
  try {
    file = new DatabaseSync(path)
    file.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    file?.close()
    const { errcode, message } = cause as Error & { readonly errcode?: number }
    if (errcode !== SQLITE_BUSY) throw new Error(`${path}: ${message}`, { cause })
    throw new DirectoryInUseError(`${directory} is in use by another backend process`, { cause })
  }
  const taken = file
  return () => taken.close()
}
