import {
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'

/** Raise the version when an older gateway could misread the lines. */
export type FileFormat = { readonly name: string; readonly version: number }

export const OWNER_ONLY = 0o600
/** Refuses a pipe without a reader (ENXIO), and does not block. */
export const WRITE_ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NONBLOCK

/** `{"format":"revocations","version":1}`. Files of older gateways have no header, and are version 1. */
export function headerLine({ name, version }: FileFormat): string {
  return `${JSON.stringify({ format: name, version })}\n`
}

/** @returns `firstLine`: line number of `lines[0]` @throws Error of the system; NewerFormatError */
export function readLines(
  file: string,
  format: FileFormat,
): { readonly lines: string[]; readonly firstLine: number; readonly isTorn: boolean } {
  const lines = readFileSync(file, 'utf8').split('\n')
  const isTorn = lines.at(-1) !== ''
  if (!isTorn) lines.pop()
  const hasHeader = lines[0] !== undefined && isHeader(file, lines[0], format)
  if (hasHeader) lines.shift()
  return { lines, firstLine: hasHeader ? 2 : 1, isTorn }
}

/** @returns undefined when the text is no JSON */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Thrown because a gateway that ignored a newer gateway's file would forget what the file says. */
export class NewerFormatError extends Error {}

function isHeader(file: string, line: string, format: FileFormat): boolean {
  if (!line.startsWith('{"format":')) return false
  const header = parsedJson(line)
  if (header === undefined) return false
  const { version } = header as { readonly version?: unknown }
  if (Number.isSafeInteger(version) && Number(version) <= format.version) return true
  throw new NewerFormatError(
    `${file} was written by a newer version of the gateway: its format is ${format.name} ${version}, ` +
      `and this version reads ${format.name} up to ${format.version}`,
  )
}

/** Replaces the file atomically, also in a power failure. @throws Error of the system, perhaps after the replacement */
export function replaceFile(file: string, parts: Iterable<string | Uint8Array>): void {
  const draft = `${file}.tmp`
  const fd = openSync(draft, WRITE_ANEW, OWNER_ONLY)
  try {
    try {
      for (const part of parts) writeFileSync(fd, part)
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(draft, file)
  } catch (error) {
    // The draft would take the last room of a full disk.
    discard(draft)
    throw error
  }
  syncDirectory(dirname(file))
}

/** Does not use `rmSync`, which gives some errors no code. @throws Error of the system */
export function removeFile(file: string): void {
  try {
    unlinkSync(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** Removes a file after a fault. The caller reports only that fault. */
export function discard(file: string): void {
  try {
    unlinkSync(file)
  } catch {
    // The file stays, and takes room.
  }
}

/** Makes file names survive a power failure. @throws Error of the system */
export function syncDirectory(directory: string): void {
  withFile(directory, 'r', fsyncSync)
}

export function withFile<T>(path: string, flags: string | number, run: (fd: number) => T): T {
  const fd = openSync(path, flags, OWNER_ONLY)
  try {
    return run(fd)
  } finally {
    closeSync(fd)
  }
}

/**
 * Makes a directory and its parents, whose names survive a power failure. Node's recursive `mkdir` says ENOENT where a
 * parent is read-only or forbidden. @throws Error of the system that names the directory
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

/** Does nothing when the gateway may not read the directory. */
function syncNames(directory: string): void {
  try {
    syncDirectory(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
  }
}
