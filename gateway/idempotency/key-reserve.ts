import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import type { Write } from '../storage/append-log.ts'
import { OWNER_ONLY } from '../storage/line-file.ts'

/** A block of most file systems, which holds an outcome without fields and body. */
const BLOCK_BYTES = 4096
const BLANK = '\n'.repeat(BLOCK_BYTES)

/** A blank file that gives up blocks for outcomes that a full disk would not take. */
export class Reserve {
  readonly #fd: number
  readonly #write: Write
  #bytes: number

  /** @throws Error of the system */
  constructor(file: string, write = writeSync as Write) {
    this.#fd = openSync(file, 'a', OWNER_ONLY)
    this.#write = write
    this.#bytes = fstatSync(this.#fd).size
  }

  /** Grows to this number of blocks. @returns false when the disk has no room */
  hold(blocks: number): boolean {
    try {
      while (this.#bytes < blocks * BLOCK_BYTES) {
        const count = this.#write(this.#fd, BLANK)
        if (count === 0) return false
        this.#bytes += count
      }
      return true
    } catch {
      return false
    }
  }

  /** Gives a block back to the disk. @returns false when that failed */
  give(): boolean {
    if (this.#bytes < BLOCK_BYTES) return false
    try {
      ftruncateSync(this.#fd, this.#bytes - BLOCK_BYTES)
      this.#bytes -= BLOCK_BYTES
      return true
    } catch {
      return false
    }
  }

  close(): void {
    closeSync(this.#fd)
  }
}
