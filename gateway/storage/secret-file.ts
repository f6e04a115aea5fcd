import { randomBytes } from 'node:crypto'
import { existsSync, fsyncSync, linkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { discard, makeDirectory, syncDirectory, WRITE_ANEW, withFile } from './line-file.ts'

const BYTES = 32
/** Errors of `link` on FAT and some network file systems. */
const NO_LINKS: ReadonlySet<string | undefined> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'])

/** Makes a secret of 43 characters, if there is none. @throws Error of the system */
export function existingOrNew(file: string): string {
  makeOnce(file, `${randomBytes(BYTES).toString('base64url')}\n`)
  return file
}

/**
 * Makes a file, mode 0600. Even after `kill -9`, the file is whole or missing, unless its disk has no hard links.
 * @returns false when the file was there @throws Error of the system
 */
export function makeOnce(file: string, content: string | Uint8Array): boolean {
  if (existsSync(file)) return false
  makeDirectory(dirname(file))
  const draft = `${file}.${process.pid}`
  const write = (path: string, flags: string | number) =>
    withFile(path, flags, (fd) => {
      writeFileSync(fd, content)
      fsyncSync(fd)
    })
  try {
    write(draft, WRITE_ANEW)
    try {
      linkSync(draft, file)
    } catch (error) {
      if (!NO_LINKS.has((error as NodeJS.ErrnoException).code)) throw error
      write(file, 'wx')
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    discard(draft)
  }
  syncDirectory(dirname(file))
  return true
}
