import { closeSync, fdatasyncSync, fstatSync, type Stats, writeSync } from 'node:fs'
import { openToAppend } from '../../storage/append-file.ts'
import { cutOff } from '../../storage/torn-line.ts'
import { giveWay } from '../give-way.ts'

/** The audit file `-`: records go to standard output. */
export const STANDARD_OUTPUT = '-'

const STANDARD_OUTPUT_FD = 1
/** Holds nearly every group of records in UTF-8. */
const SCRATCH_BYTES = 256 * 1024
const UTF8_MAX_BYTES_PER_UNIT = 3
/** How long a full non-blocking pipe (EAGAIN) may hold the event loop before the write fails. */
const PIPE_TIMEOUT_MS = 50

/**
 * An open file or standard output. Lines go in by one `write` as a rule; what a failed write left is cut off again where
 * possible. Call `load`, then `write`.
 */
export class TrailSink {
  /** Bytes of a partial line that are in the file because they could not be cut off. */
  tornBytes = 0
  /** The last write failed: the next does not wait for room. */
  #failing = false
  readonly fd: number
  /** A regular file to which nobody else may write. */
  readonly isOwn: boolean
  /** Device and inode are equal for two names of one file. */
  readonly device: bigint
  readonly inode: string
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES)
  #bytes: Buffer = this.#scratch
  #length = 0

  /** @param fd open to append to. @throws Error of the system, when it is not open */
  constructor(fd: number) {
    const stats = fstatSync(fd, { bigint: true })
    this.fd = fd
    this.isOwn = fd !== STANDARD_OUTPUT_FD && stats.isFile()
    this.device = stats.dev
    this.inode = stats.ino.toString()
  }

  /** @throws Error that names the file, when it cannot be opened. */
  static open(file: string): TrailSink {
    return new TrailSink(file === STANDARD_OUTPUT ? STANDARD_OUTPUT_FD : openToAppend(file))
  }

  /**
   * Prepares the text for `write`. While `tornBytes` is not 0 it must begin with the torn line, whose rest is written.
   *
   * @returns its bytes, until the next call.
   */
  load(text: string): Buffer {
    const fits = text.length * UTF8_MAX_BYTES_PER_UNIT <= SCRATCH_BYTES
    this.#bytes = fits ? this.#scratch : Buffer.from(text)
    this.#length = fits ? this.#scratch.write(text) : this.#bytes.length
    return this.#bytes.subarray(0, this.#length)
  }

  /** @returns undefined when the operating system has all of it. */
  write(): Error | undefined {
    let at = this.tornBytes
    try {
      while (at < this.#length) at += this.#writeSome(this.#bytes, at, this.#length)
      this.tornBytes = 0
      this.#failing = false
      return undefined
    } catch (error) {
      this.tornBytes = this.cutOff(at) ? 0 : at
      this.#failing = true
      return error as Error
    }
  }

  /**
   * After a failed write: whole lines that could not be cut off stay.
   *
   * @param lines what was to be written.
   * @returns how many of them are in the file whole; `tornBytes` then counts the bytes of the next one.
   */
  leaveWhole(lines: readonly string[]): number {
    let count = 0
    for (const line of lines) {
      const bytes = Buffer.byteLength(line)
      if (this.tornBytes < bytes) break
      this.tornBytes -= bytes
      count++
    }
    return count
  }

  /** Waits until the disk has what was written. @throws Error of the system; then it is unknown what the disk has. */
  sync(): void {
    fdatasyncSync(this.fd)
  }

  get stats(): Stats {
    return fstatSync(this.fd)
  }

  /** The file has no name any more: what is written to it is lost when the process ends. */
  get isRemoved(): boolean {
    return fstatSync(this.fd).nlink === 0
  }

  /** Standard output is left open. @throws Error of the system, when something could not be written. */
  close(): void {
    if (this.fd !== STANDARD_OUTPUT_FD) closeSync(this.fd)
  }

  /** Cuts bytes off the end. Standard output may be a file that others write to. @returns false when they are still there */
  cutOff(bytes: number): boolean {
    return bytes === 0 || (this.fd !== STANDARD_OUTPUT_FD && cutOff(this.fd, bytes))
  }

  /** @returns the number of bytes taken: at least 1 (POSIX `write`). */
  #writeSome(bytes: Buffer, start: number, end: number): number {
    for (let waitedMs = 0; ; waitedMs++) {
      try {
        return writeSync(this.fd, bytes, start, end - start)
      } catch (error) {
        const isFull = (error as NodeJS.ErrnoException).code === 'EAGAIN'
        if (!isFull || this.#failing || waitedMs >= PIPE_TIMEOUT_MS) throw error
        giveWay(1)
      }
    }
  }
}
