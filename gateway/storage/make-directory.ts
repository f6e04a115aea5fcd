import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { syncDirectory } from './line-file.ts'

/**
 * Makes a directory and its parents, mode 0700, so that their names survive a power failure. Node's own recursive `mkdir` says
 * ENOENT where a parent is read-only (EROFS) or forbidden (EACCES).
 *
 * @throws Error of the system, which names the directory that could not be made and why.
 */
export function makeDirectory(directory: string): void {
  const there = statSync(directory, { throwIfNoEntry: false })
  if (there?.isDirectory()) return
  if (there !== undefined) {
    throw Object.assign(new Error(`ENOTDIR: not a directory, mkdir '${directory}'`), { code: 'ENOTDIR' })
  }
  const parent = dirname(directory)
  if (parent !== directory) makeDirectory(parent)
  try {
    mkdirSync(directory, 0o700)
  } catch (error) {
    if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) throw error
    return
  }
  syncNames(parent)
}

/** One may make directories where one may not read, and only who reads can sync: there it is left to the system. */
function syncNames(directory: string): void {
  try {
    syncDirectory(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
  }
}
