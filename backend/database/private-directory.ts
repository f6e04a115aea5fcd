import { chmodSync, existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** This file marks keys that others could read. It stays until the keys are replaced. */
const MARKER = 'keys-exposed'

/**
 * Ends other users' access to the embedded database in `directory`, which holds the private signing keys. It writes the
 * marker first, so that exposed keys are replaced even after a crash. Returns true when others can still read the
 * database, because the file system has no permissions or another user owns the directory.
 */
export function endExposure(directory: string): boolean {
  const cluster = join(directory, 'cluster')
  if (!isOpenToOthers(cluster)) return false
  writeFileSync(join(directory, MARKER), '', { mode: 0o600 })
  try {
    // Nobody else reaches files in a directory that only its owner may enter.
    chmodSync(cluster, 0o700)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EPERM') throw fault
  }
  if (!isOpenToOthers(cluster)) return false
  // Otherwise keys that stay readable would be replaced at each start for nothing.
  forgetExposure(directory)
  return true
}

/** True while there are keys that others could read. */
export function isExposed(directory: string): boolean {
  return existsSync(join(directory, MARKER))
}

export function forgetExposure(directory: string): void {
  rmSync(join(directory, MARKER), { force: true })
}

function isOpenToOthers(cluster: string): boolean {
  if (process.platform === 'win32') return false
  return ((statSync(cluster, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0
}
