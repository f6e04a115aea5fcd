import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { OWNER_ONLY } from './line-file.ts'
import { cutOff } from './torn-line.ts'

export type Write = (fd: number, bytes: string | Uint8Array) => number

interface AppendLogOptions {
  /** Opened anew in each turn of the event loop, so that it may be moved. Undefined if `moveTo` gives an open file. */
  readonly file?: string
  readonly header?: string
  readonly onFault: (error: unknown) => void
  readonly retryMs: number
  readonly write?: Write | undefined
}

const MAX_WAITING_BYTES = 8 * 1024 * 1024
/** One byte proves nothing, because the last block of the file may have room for it on a full disk. */
const BLANK_BLOCK = '\n'.repeat(4096)
const PART_CHARACTERS = 64 * 1024

/**
 * A file of lines that only grows. `kill -9` does not lose what `append` or `put` has written. A write puts all its
 * lines into the file, or none. If a part cannot be cut off, or after a crash, the next write ends the torn line.
 */
export class AppendLog {
  readonly #options: AppendLogOptions
  readonly #write: Write
  isTorn = false
  isFailing = false
  descriptor: number | undefined
  /** Descriptor of `file`, until the end of the turn. */
  #opened: number | undefined
  sizeBytes = 0
  #waiting: string[] = []
  #header = ''
  /** A crash would lose these bytes. */
  waitingBytes = 0
  /** Lines that were given up, because too many were waiting. */
  lostLines = 0
  #retryAtMs = Number.NEGATIVE_INFINITY

  constructor(options: AppendLogOptions) {
    this.#options = options
    this.#write = options.write ?? (writeSync as Write)
  }

  get isWritable(): boolean {
    const hasFile = this.descriptor !== undefined || this.#options.file !== undefined
    return hasFile && this.waitingBytes === 0 && !this.isFailing
  }

  /** Writes whole lines, after the waiting lines. @returns false when none of `lines` is in the file */
  append(lines: string, nowMs: number): boolean {
    const written = nowMs >= this.#retryAtMs && this.#flushed(nowMs) && this.#attempt(lines, nowMs)
    this.isFailing = !written
    return written
  }

  /** Like `append`, but unwritten lines wait. */
  put(lines: string, nowMs: number): boolean {
    const written = this.append(lines, nowMs)
    if (!written) this.#wait(lines)
    return written
  }

  flush(nowMs: number): void {
    if (this.waitingBytes > 0) this.isFailing = !this.#flushed(nowMs)
  }

  /** Called once a second. If no line waits, blank lines show whether there is room again. */
  maintain(nowMs: number): void {
    if (this.waitingBytes > 0) this.flush(nowMs)
    else if (this.isFailing) this.append(BLANK_BLOCK, nowMs)
  }

  /** Continues in another open file, with `header` and what waits, but without the header of the last file. */
  moveTo(fd: number, header: string, nowMs: number): void {
    this.close()
    this.descriptor = fd
    this.sizeBytes = 0
    this.isTorn = false
    const [first = ''] = this.#waiting
    const lines = first.startsWith(this.#header) ? first.slice(this.#header.length) : first
    this.#waiting[0] = header + lines
    this.waitingBytes += Buffer.byteLength(header + lines) - Buffer.byteLength(first)
    this.#header = header
    this.flush(nowMs)
  }

  /** Forgets waiting and lost lines. The caller writes them to a new file. */
  forget(): void {
    this.leave()
    this.#waiting = []
    this.waitingBytes = 0
    this.lostLines = 0
    this.isTorn = false
  }

  /** Closes `file`, which may be moved now. */
  leave(): void {
    const fd = this.#opened
    this.#opened = undefined
    this.#close(fd)
  }

  close(): void {
    const fd = this.descriptor
    this.descriptor = undefined
    this.#close(fd)
  }

  #close(fd: number | undefined): void {
    try {
      if (fd !== undefined) closeSync(fd)
    } catch (error) {
      // A network file system may report only now that it has no room.
      this.isFailing = true
      this.#options.onFault(error)
    }
  }

  #wait(lines: string): void {
    if (this.waitingBytes > MAX_WAITING_BYTES) {
      this.lostLines += lines.split('\n').length - 1
      return
    }
    this.waitingBytes += Buffer.byteLength(lines)
    const last = this.#waiting.length - 1
    if (last >= 0 && (this.#waiting[last] as string).length < PART_CHARACTERS) this.#waiting[last] += lines
    else this.#waiting.push(lines)
  }

  #flushed(nowMs: number): boolean {
    while (this.#waiting.length > 0) {
      const part = this.#waiting[0] as string
      if (!this.#attempt(part, nowMs)) return false
      this.#waiting.shift()
      this.waitingBytes -= Buffer.byteLength(part)
    }
    return true
  }

  #attempt(lines: string, nowMs: number): boolean {
    const { file, header = '', retryMs, onFault } = this.#options
    try {
      if (this.descriptor !== undefined) return this.#writeWhole(this.descriptor, lines)
      if (file === undefined) return false
      if (this.#opened !== undefined) return this.#writeWhole(this.#opened, lines)
      this.#opened = openSync(file, 'a', OWNER_ONLY)
      setImmediate(() => this.leave())
      const isNew = fstatSync(this.#opened).size === 0
      if (isNew) this.isTorn = false
      return this.#writeWhole(this.#opened, isNew ? header + lines : lines)
    } catch (error) {
      this.leave()
      this.#retryAtMs = nowMs + retryMs
      // The next append may find another file at the path.
      if (file !== undefined) this.isTorn = true
      onFault(error)
      return false
    }
  }

  #writeWhole(fd: number, lines: string): true {
    const wasTorn = this.isTorn
    const text = wasTorn ? `\n${lines}` : lines
    const length = Buffer.byteLength(text)
    let sent = 0
    try {
      do {
        const count = this.#write(fd, sent === 0 ? text : Buffer.from(text).subarray(sent))
        if (count === 0) throw new Error('the disk took no byte')
        sent += count
      } while (sent < length)
    } catch (error) {
      this.isTorn = !cutOff(fd, sent) || wasTorn
      throw error
    }
    this.isTorn = false
    this.sizeBytes += length
    return true
  }
}
