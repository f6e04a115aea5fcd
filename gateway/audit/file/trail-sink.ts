import { closeSync, fdatasyncSync, fstatSync, type Stats, writeSync } from 'node:fs'
import { openToAppend } from '../../storage/append-file.ts'
import { cutOff } from '../../storage/torn-line.ts'
import { giveWay } from '../give-way.ts'

export const STANDARD_OUTPUT = '-'
const STANDARD_OUTPUT_FD = 1
const SCRATCH_BYTES = 256 * 1024
const UTF8_MAX_BYTES_PER_UNIT = 3
/** How long a full non-blocking pipe (EAGAIN) may hold the event loop. */
const PIPE_TIMEOUT_MS = 50

/** An open file or standard output. Call `load`, then `write`. */
export class TrailSink {
  /** Bytes of a partial line that could not be cut off. */
  tornBytes = 0
  #failing = false
  readonly fd: number
  readonly isOwn: boolean
  readonly device: bigint
  readonly inode: string
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES)
  #bytes: Buffer = this.#scratch
  #length = 0

  constructor(fd: number) {
    const stats = fstatSync(fd, { bigint: true })
    this.fd = fd
    this.isOwn = fd !== STANDARD_OUTPUT_FD && stats.isFile()
    this.device = stats.dev
    this.inode = stats.ino.toString()
  }

  static open(file: string): TrailSink {
    return new TrailSink(file === STANDARD_OUTPUT ? STANDARD_OUTPUT_FD : openToAppend(file))
  }

  /** Prepares a text, which must begin with the torn line, if any. @returns bytes, valid until the next call */
  load(text: string): Buffer {
    const fits = text.length * UTF8_MAX_BYTES_PER_UNIT <= SCRATCH_BYTES
    this.#bytes = fits ? this.#scratch : Buffer.from(text)
    this.#length = fits ? this.#scratch.write(text) : this.#bytes.length
    return this.#bytes.subarray(0, this.#length)
  }

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

  /** Counts whole lines of a failed write. Afterwards `tornBytes` counts only the line behind them. */
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

  /** After an error it is unknown which bytes the disk has. */
  sync(): void {
    fdatasyncSync(this.fd)
  }

  get stats(): Stats {
    return fstatSync(this.fd)
  }

  /** True when no name is left: the contents are lost when the process ends. */
  get isRemoved(): boolean {
    return fstatSync(this.fd).nlink === 0
  }

  close(): void {
    if (this.fd !== STANDARD_OUTPUT_FD) closeSync(this.fd)
  }

  /** @returns false when the bytes stay. Nothing is cut off standard output, because others may write to it too */
  cutOff(bytes: number): boolean {
    return bytes === 0 || (this.fd !== STANDARD_OUTPUT_FD && cutOff(this.fd, bytes))
  }

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
