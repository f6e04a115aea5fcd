import { chmodSync, existsSync, lstatSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** All permissions of the group and of others. */
const OTHERS = 0o077

/** A marker file. Its time is the end of the exposure; it exists until all earlier keys are replaced. */
const MARKER = 'keys-exposed'

/** The files of this program in its data directory. A directory with others is not ours alone. */
const OURS: ReadonlySet<string> = new Set([
  'cluster',
  'cluster.unfinished',
  'lock',
  'lock-journal',
  MARKER,
  'rotate-keys.request',
  'bank-portal.private.jwk.json',
])

/**
 * Closes the embedded database in `directory` to other users of the machine. Earlier versions left it readable, and with
 * it the private signing keys: a marker is written first, so that they are replaced even after a crash. @returns
 * true when others can still read it, because the file system has no permissions or another user owns it
 */
export function endExposure(directory: string): boolean {
  if (isOpenToOthers(directory)) writeFileSync(join(directory, MARKER), '', { mode: 0o600 })
  closeToOthers(directory)
  const isStillOpen = isOpenToOthers(directory)
  // Keys that stay readable would be replaced at each start, for nothing.
  if (isStillOpen) forgetExposure(directory)
  return isStillOpen
}

/** When others could last read the keys that are still to be replaced; undefined when there are none. */
export function exposedUntil(directory: string): Date | undefined {
  return statSync(join(directory, MARKER), { throwIfNoEntry: false })?.mtime
}

export function forgetExposure(directory: string): void {
  rmSync(join(directory, MARKER), { force: true })
}

/** True when other users of this machine could read the embedded database in `directory`. */
export function isOpenToOthers(directory: string): boolean {
  const cluster = join(directory, 'cluster')
  // Windows has no such bits.
  return process.platform !== 'win32' && existsSync(cluster) && hasOthers(cluster)
}

/**
 * Removes all permissions of others from our files in `directory`, and from the directory itself when it holds nothing else.
 * Does not follow links, and leaves files of other users as they are.
 */
export function closeToOthers(directory: string): void {
  const names = existsSync(directory) ? readdirSync(directory) : []
  for (const name of names) if (OURS.has(name)) closeTree(join(directory, name))
  if (names.length > 0 && names.every((name) => OURS.has(name))) close(directory)
}

/** The content first: after an interruption, the directory still shows that work remains. */
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
