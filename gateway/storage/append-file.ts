import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { makeDirectory as makeDirectoryOf, syncDirectory } from './line-file.ts'

/** @throws Error that names the file */
export function makeDirectory(file: string): void {
  naming(file, () => makeDirectoryOf(dirname(file)))
}

/** Makes the file and its directory if missing. @throws Error that names the file */
export function openToAppend(file: string): number {
  makeDirectory(file)
  // Without O_NONBLOCK a pipe without a reader would block the start.
  const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
  const fd = naming(file, () => openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600))
  const stats = fstatSync(fd)
  if (stats.isFile() || stats.isCharacterDevice()) return fd
  closeSync(fd)
  const kind = stats.isFIFO() ? 'a pipe' : 'a special file'
  throw unusable(file, `${kind} is no place for a trail; the name of standard output is "-"`)
}

/** Gives one path for all names of a file, which need not exist. */
export function realPathOf(file: string): string {
  try {
    return realpathSync(file)
  } catch (error) {
    const path = join(realpathSync(dirname(file)), basename(file))
    // Links in a circle (ELOOP) and a path below a file (ENOTDIR) do not say that the file is missing.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return path
    if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path
    const target = resolve(dirname(path), readlinkSync(path))
    return existsSync(dirname(target)) ? realPathOf(target) : path
  }
}

/** Syncs the directory of the file itself, not of a link to it. @throws Error that names the file */
export function syncDirectoryOf(file: string): void {
  naming(file, () => syncDirectory(dirname(realPathOf(file))))
}

/** @throws Error that names the audit file */
export function naming<T>(file: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw unusable(file, error)
  }
}

export function unusable(file: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new Error(`audit file ${file} cannot be used: ${reason}`, { cause })
}
