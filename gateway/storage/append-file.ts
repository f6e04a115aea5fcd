import { closeSync, constants, fstatSync, fsyncSync, openSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { makeDirectory as makeDirectoryOf } from './make-directory.ts'

/** Makes the directory of the audit file, if it is missing, readable by its owner only. @throws Error that names the file. */
export function makeDirectory(file: string): void {
  try {
    makeDirectoryOf(dirname(file))
  } catch (error) {
    throw unusable(file, error)
  }
}

/**
 * Opens the audit file to append to it; made with mode 0600, and its directory too, if missing.
 *
 * @throws Error that names the file when it cannot be opened or is a directory, a pipe or a socket.
 */
export function openToAppend(file: string): number {
  makeDirectory(file)
  let fd: number
  try {
    // Without O_NONBLOCK a named pipe without a reader would hold the start for ever; regular files do not know it.
    const { O_WRONLY, O_APPEND, O_CREAT, O_NONBLOCK } = constants
    fd = openSync(file, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0o600)
  } catch (error) {
    throw unusable(file, error)
  }
  const stats = fstatSync(fd)
  if (stats.isFile() || stats.isCharacterDevice()) return fd
  closeSync(fd)
  throw unusable(file, new Error(`${kindOf(stats)} is no place for a trail; - is standard output`))
}

/** Makes the name of a new file as lasting as what is in it. @throws Error that names the file. */
export function syncDirectory(file: string): void {
  const fd = openSync(dirname(file), constants.O_RDONLY)
  try {
    fsyncSync(fd)
  } catch (error) {
    throw unusable(file, error)
  } finally {
    closeSync(fd)
  }
}

function kindOf(stats: Stats): string {
  return stats.isFIFO() ? 'a pipe' : 'a special file'
}

/** @returns the error to throw when the audit file cannot be used: it names the file and keeps the system's reason. */
export function unusable(file: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new Error(`audit file ${file} cannot be used: ${reason}`, { cause })
}
