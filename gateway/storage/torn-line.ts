import { appendFileSync, fstatSync, ftruncateSync, readSync, truncateSync } from 'node:fs'
import { withFile } from './line-file.ts'
import { endOfLastLine } from './lines-backward.ts'

/** A torn record begins with at least a part of this. */
const RECORD_HEAD = Buffer.from('{"type":"')
const CHUNK_BYTES = 256 * 1024

/**
 * Cuts the torn last line off a file, if it begins a record or has only NULs (a power loss). Other bytes, and what
 * cannot be cut (`chattr +a`), become a damaged line. @returns the number of bytes cut off
 */
export function cutTornLine(file: string): number {
  return withFile(file, 'r', (fd) => {
    const { size } = fstatSync(fd)
    const start = endOfLastLine(fd, size)
    if (start === size) return 0
    if (isTornRecord(fd, start, size) && cut(file, start)) return size - start
    appendFileSync(file, '\n')
    return 0
  })
}

function isTornRecord(fd: number, start: number, size: number): boolean {
  const head = Buffer.alloc(Math.min(RECORD_HEAD.length, size - start))
  readSync(fd, head, 0, head.length, start)
  return RECORD_HEAD.subarray(0, head.length).equals(head) || isNulOnly(fd, start, size)
}

function isNulOnly(fd: number, start: number, size: number): boolean {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  for (let at = start; at < size; ) {
    const count = readSync(fd, chunk, 0, chunk.length, at)
    if (count === 0 || chunk.subarray(0, count).some((byte) => byte !== 0)) return false
    at += count
  }
  return true
}

function cut(file: string, length: number): boolean {
  try {
    truncateSync(file, length)
    return true
  } catch {
    return false
  }
}

/** Cuts the last bytes off a file. @returns false when the file cannot be cut (`chattr +a`) */
export function cutOff(fd: number, bytes: number): boolean {
  if (bytes === 0) return true
  try {
    const { size } = fstatSync(fd)
    if (size >= bytes) ftruncateSync(fd, size - bytes)
    return true
  } catch {
    return false
  }
}
