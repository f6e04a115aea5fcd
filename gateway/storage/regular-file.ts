import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs'

const MAX_BYTES = 1024 * 1024

/** Opens a file, and does not wait for a pipe. @throws Error that names what is no regular file */
export function openRegularFile(path: string): { readonly fd: number; readonly stats: BigIntStats } {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const stats = fstatSync(fd, { bigint: true })
  if (stats.isFile()) return { fd, stats }
  closeSync(fd)
  throw new Error(`${path} is no regular file: save the output of a pipe to a file first`)
}

/** @throws Error as `openRegularFile`, or beyond `maxBytes` */
export function readRegularFile(path: string, maxBytes = MAX_BYTES): Buffer {
  const { fd, stats } = openRegularFile(path)
  try {
    if (stats.size > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
    // The file may shrink or grow meanwhile.
    const bytes = Buffer.alloc(Number(stats.size))
    let read = 0
    for (let count = -1; count !== 0 && read < bytes.length; read += count) {
      count = readSync(fd, bytes, read, bytes.length - read, read)
    }
    return bytes.subarray(0, read)
  } finally {
    closeSync(fd)
  }
}

/** @returns undefined when there is no such file */
export function readIfThere(path: string, maxBytes?: number): Buffer | undefined {
  try {
    return readRegularFile(path, maxBytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Reads `count` bytes, or fewer at the end of the file. */
export function readAt(fd: number, at: number, count: number): Buffer {
  const bytes = Buffer.allocUnsafe(count)
  return bytes.subarray(0, readSync(fd, bytes, 0, count, at))
}

/** @returns undefined also for a link that cannot be followed (ELOOP, EACCES) */
export function regularStats(path: string): BigIntStats | undefined {
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stats?.isFile() ? stats : undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ELOOP' || code === 'EACCES') return undefined
    throw error
  }
}

export function inodeOf(path: string): string | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino.toString()
}
