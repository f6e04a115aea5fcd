import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, writeSync } from 'node:fs'
import { openToAppend } from '../../storage/append-file.ts'

/** The audit file `-`: records go to standard output. */
export const STANDARD_OUTPUT = '-'

const STANDARD_OUTPUT_FD = 1
/** Holds nearly every record, and nearly every 64 KiB of gathered ones, whatever their characters take in UTF-8. */
const SCRATCH_BYTES = 256 * 1024
const UTF8_MAX_BYTES_PER_UNIT = 3
/** How long a full pipe that does not block (EAGAIN) may hold the event loop before it counts as a failed write. */
const PIPE_PATIENCE_MS = 50

/** Never written: waiting on it is the only way to rest without giving the event loop away. */
const REST = new Int32Array(new SharedArrayBuffer(4))

/**
 * Where lines go: an open file, or standard output. A line goes in by one `write` as a rule, and what a failed one
 * left of it is cut off again where that can be done. `load`, then `write`: several lines at once are as good as one.
 */
export class TrailSink {
  /** Of the line that failed last, how many bytes stand in the file because they could not be cut off. */
  tornBytes = 0
  /** The last write failed: no time is spent on waiting until one succeeds. */
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
   * Makes ready what `write` writes. While `tornBytes` is not 0, it must begin with the torn line, whose rest is written.
   *
   * @returns how many bytes the file will grow by.
   */
  load(text: string): number {
    const fits = text.length * UTF8_MAX_BYTES_PER_UNIT <= SCRATCH_BYTES
    this.#bytes = fits ? this.#scratch : Buffer.from(text)
    this.#length = fits ? this.#scratch.write(text) : this.#bytes.length
    return this.#length - this.tornBytes
  }

  /** @returns undefined when all of it has been handed to the operating system. */
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
   * After a write that failed: of the bytes that could not be cut off, those of whole lines stay where they are.
   *
   * @param lines what was to be written.
   * @returns how many of them stand in the file whole; `tornBytes` is of the one behind them.
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

  /** Waits until the disk has what was written. @throws Error of the system, and then nothing is known of it. */
  sync(): void {
    fdatasyncSync(this.fd)
  }

  /** Makes a line of what somebody else has left, if that can be done. */
  endLine(): void {
    try {
      writeSync(this.fd, '\n')
    } catch {
      // It is one damaged line with the next one then.
    }
  }

  get sizeBytes(): number {
    return fstatSync(this.fd).size
  }

  /** It has no name any more: whatever is written to it is lost with the process. */
  get isRemoved(): boolean {
    return fstatSync(this.fd).nlink === 0
  }

  /** Tells files apart, whatever their names: device and inode. */
  identity(): { readonly device: string; readonly inode: string } {
    const { dev, ino } = fstatSync(this.fd, { bigint: true })
    return { device: dev.toString(), inode: ino.toString() }
  }

  /** Standard output is left open. @throws Error when the system reports at last that something could not be written. */
  close(): void {
    if (this.fd !== STANDARD_OUTPUT_FD) closeSync(this.fd)
  }

  /**
   * Cuts bytes off the end. Measured against the size as it is: a tool may have shortened the file (`copytruncate`). Standard output may be a
   * file that others write to as well, so nothing is cut there.
   *
   * @returns false when they are there still.
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
        if (!isFull || this.#failing || waitedMs >= PIPE_PATIENCE_MS) throw error
        Atomics.wait(REST, 0, 0, 1)
      }
    }
  }
}
