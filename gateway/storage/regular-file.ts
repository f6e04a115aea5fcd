import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Far above what the files have that are read by this. */
const MAX_BYTES = 1024 * 1024

/**
 * Reads a small file in a directory that others can write, or have filled. A pipe there would block the reader for ever, and a
 * device have no end.
 *
 * @throws Error that names the file: of the system, or because it is no regular file, or a larger one.
 */
export function readRegularFile(path: string, maxBytes = MAX_BYTES): Buffer {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw new Error(`${path} is no regular file`)
    if (stats.size > maxBytes) throw new Error(`${path} has more than ${maxBytes} bytes`)
    // It may be replaced or grow meanwhile.
    const bytes = Buffer.alloc(stats.size)
    let read = 0
    for (let count = -1; count !== 0 && read < bytes.length; read += count) {
      count = readSync(fd, bytes, read, bytes.length - read, read)
    }
    return bytes.subarray(0, read)
  } finally {
    closeSync(fd)
  }
}
