import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Another process has the data directory open. */
export class DirectoryInUseError extends Error {
  override name = 'DirectoryInUseError'
}

/**
 * Takes the directory for this process and returns the function that releases it. Throws {@link DirectoryInUseError}
 * when it is taken: two engines on the same files would destroy them.
 *
 * The lock is SQLite's on a file of its own, because Node has no file lock. It is a lock of the kernel: it ends with the
 * process in any case, and works between containers that share a volume. A file with a process id does neither.
 */
export function lockDirectory(directory: string): () => void {
  const file = new DatabaseSync(join(directory, 'lock'))
  try {
    file.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    file.close()
    throw new DirectoryInUseError(`${directory} is in use by another backend process`, { cause })
  }
  return () => file.close()
}
