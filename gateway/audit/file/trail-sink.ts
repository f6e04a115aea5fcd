import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, type Stats, writeSync } from 'node:fs'
import { openToAppend } from '../../storage/append-file.ts'
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
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES)
  #bytes: Buffer = this.#scratch
  #length = 0

  /** @param fd open to append to. */
  constructor(fd: number) {
    this.fd = fd
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

  /** A regular file to which nobody else may write. */
  get isOwn(): boolean {
    return this.fd !== STANDARD_OUTPUT_FD && fstatSync(this.fd).isFile()
  }

  get stats(): Stats {
    return fstatSync(this.fd)
  }

  /** The file has no name any more: what is written to it is lost when the process ends. */
  get isRemoved(): boolean {
    return fstatSync(this.fd).nlink === 0
  }

  /** Device and inode: equal for two names of one file. */
  identity(): { readonly device: string; readonly inode: string } {
    const { dev, ino } = fstatSync(this.fd, { bigint: true })
    return { device: dev.toString(), inode: ino.toString() }
  }

  /** Standard output is left open. @throws Error of the system, when something could not be written. */
  close(): void {
    if (this.fd !== STANDARD_OUTPUT_FD) closeSync(this.fd)
  }

  /**
   * Cuts bytes off the end of the file. The size is read anew: a tool may have shortened the file (`copytruncate`). Standard
   * output may be a file that others write to, so it is never cut.
   *
   * @returns false when the bytes are still there.
   */
  cutOff(bytes: number): boolean {
    if (bytes === 0) return true
    if (this.fd === STANDARD_OUTPUT_FD) return false
    try {
      const { size } = fstatSync(this.fd)
      if (size < bytes) return true
      ftruncateSync(this.fd, size - bytes)
      return true
    } catch {
      return false
    }
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
