import { existsSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { OWNER_ONLY, withFile } from './line-file.ts'
import { readIfThere } from './regular-file.ts'

/** Room for some 200 lines. */
const RESERVE_BYTES = 16 * 1024

/** Disk space reserved for lines that come when the disk is full: blank lines that are overwritten in place. */
export class Reserve {
  readonly file: string
  readonly #blank: string
  #isUnused = false

  constructor(file: string, header: string) {
    this.file = file
    this.#blank = header.padEnd(RESERVE_BYTES, '\n')
  }

  /** @returns false when there is no room or no reserve */
  put(line: string): boolean {
    this.#isUnused = false
    try {
      return withFile(this.file, 'r+', (fd) => putInto(fd, line))
    } catch {
      return false
    }
  }

  /** Makes the file, or makes it blank again, once its lines are in another file. @throws Error when there is no room for it */
  clear(): void {
    if (this.#isUnused && existsSync(this.file)) return
    const found = readIfThere(this.file)
    if (found === undefined) this.#make()
    // In place: a new file would need the space a second time.
    else if (found.toString('latin1') !== this.#blank) writeFileSync(this.file, this.#blank, { flag: 'r+' })
    this.#isUnused = true
  }

  #make(): void {
    try {
      writeFileSync(this.file, this.#blank, { mode: OWNER_ONLY, flag: 'wx', flush: true })
    } catch (error) {
      rmSync(this.file, { force: true })
      throw error
    }
  }
}

function putInto(fd: number, line: string): boolean {
  const bytes = Buffer.alloc(RESERVE_BYTES)
  const text = bytes.toString('latin1', 0, readSync(fd, bytes, 0, RESERVE_BYTES, 0))
  const own = Buffer.from(line)
  if (text.includes(own.toString('latin1'))) return true
  // An interrupted write may have left half a line.
  const start = text.trimEnd().length + 1
  if (start + own.length > text.length) return false
  return writeSync(fd, own, 0, own.length, start) === own.length
}
