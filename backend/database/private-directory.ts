import { chmodSync, existsSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Permission of the group and of all others, to read, write or enter. */
const OTHERS = 0o077

/** What this program keeps in its data directory. A directory that holds something else is not ours alone. */
const OURS: ReadonlySet<string> = new Set([
  'cluster',
  'cluster.unfinished',
  'lock',
  'lock-journal',
  'keys-exposed',
  'rotate-keys.request',
  'bank-portal.private.jwk.json',
])

/** Whether users of this machine other than the owner could get at the embedded database in `directory`. */
export function isOpenToOthers(directory: string): boolean {
  const cluster = join(directory, 'cluster')
  // Windows keeps no such bits.
  return process.platform !== 'win32' && existsSync(cluster) && hasOthers(cluster)
}

/**
 * Takes from everybody but the owner whatever rights there are to our files in `directory`, and to the directory itself
 * when nothing else is in it. Links are not followed. What belongs to another user stays as it is.
 */
export function closeToOthers(directory: string): void {
  const names = existsSync(directory) ? readdirSync(directory) : []
  for (const name of names) if (OURS.has(name)) closeTree(join(directory, name))
  if (names.length > 0 && names.every((name) => OURS.has(name))) close(directory)
}

/** What is inside comes first: when this is cut short, the directory still shows that it has to be done. */
function closeTree(path: string): void {
  const at = lstatSync(path)
  if (at.isSymbolicLink()) return
  if (at.isDirectory()) for (const name of readdirSync(path)) closeTree(join(path, name))
  close(path)
}

function close(path: string): void {
  if (!hasOthers(path)) return
  try {
    chmodSync(path, statSync(path).mode & 0o7777 & ~OTHERS)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EPERM') throw fault
  }
}

function hasOthers(path: string): boolean {
  return (statSync(path).mode & OTHERS) !== 0
}
