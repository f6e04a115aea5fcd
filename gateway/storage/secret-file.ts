import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeDirectory, syncDirectory } from './line-file.ts'

const BYTES = 32

/** Makes a secret of 43 characters in a file, if there is none. Of two processes the first one's file stays. @returns the file */
export function existingOrNew(file: string): string {
  if (existsSync(file)) return file
  makeDirectory(dirname(file))
  const draft = `${file}.${process.pid}`
  try {
    writeFileSync(draft, `${randomBytes(BYTES).toString('base64url')}\n`, { mode: 0o600, flush: true })
    linkSync(draft, file)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'EEXIST') throw fault
  } finally {
    rmSync(draft, { force: true })
  }
  syncDirectory(dirname(file))
  return file
}
