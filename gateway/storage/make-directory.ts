import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory and its parents, mode 0700. Node's own recursive `mkdir` says ENOENT where a parent is read-only (EROFS)
 * or forbidden (EACCES).
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
  }
}
