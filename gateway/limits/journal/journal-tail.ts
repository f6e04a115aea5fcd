import { closeSync } from 'node:fs'

/** Writes bytes to the end of a file, as fs.writeSync: returns how many went out, or throws. */
export type Write = (fd: number, bytes: string | Uint8Array) => number

/** After a failed write the next attempt waits this long: one attempt can cost milliseconds on a full disk. */
const RETRY_MS = 250

/**
 * The growing end of the journal. Lines go out in order, each of them whole: what could not be written waits in memory
 * and goes out first at the next chance, from the very byte at which the disk stopped taking.
 */
export class Tail {
  readonly #write: Write
  readonly #failed: (error: unknown) => void
  readonly #torn: { raised: boolean } | undefined
  #fd: number | undefined
  #sizeBytes = 0
  /** Whole lines that have not gone out whole, and how many bytes of the first are in the file already. */
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #sentBytes = 0
  #retryAtMs = Number.NEGATIVE_INFINITY

  /** `torn`: a flag of all threads that write to the file, if there are several: it ends in the middle of a line. */
  constructor(write: Write, failed: (error: unknown) => void, torn?: { raised: boolean }) {
    this.#write = write
    this.#failed = failed
    this.#torn = torn
  }

  /** Bytes in the file. */
  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** The file; undefined when there is none. */
  get descriptor(): number | undefined {
    return this.#fd
  }

  /** Another thread has written so many bytes to the file. */
  grew(bytes: number): void {
    this.#sizeBytes += bytes
  }

  /** Bytes that are in memory only. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** Hands whole lines to the operating system before it returns, or keeps them for later and reports why. */
  put(lines: string, nowMs: number): void {
    let sent = 0
    if (this.#waitingBytes === 0 && this.#fd !== undefined && this.#torn?.raised !== true) {
      sent = this.#attempt(this.#fd, lines, nowMs)
      if (sent === Buffer.byteLength(lines)) return
      this.#sentBytes = sent
    }
    this.#wait(this.#waiting.length, Buffer.from(lines))
    this.#shareTorn()
    if (nowMs >= this.#retryAtMs) this.flush(nowMs)
  }

  /**
   * Hands whole lines to the operating system before it returns, or leaves nothing of them behind that would ever count.
   *
   * @returns whether they are there
   */
  putNow(lines: string, nowMs: number): boolean {
    if (nowMs < this.#retryAtMs) return false
    this.flush(nowMs)
    if (this.#waitingBytes > 0 || this.#fd === undefined || this.#torn === undefined) return false
    const text = this.#torn.raised ? `\n${lines}` : lines
    const sent = this.#attempt(this.#fd, text, nowMs)
    const whole = sent === Buffer.byteLength(text)
    if (sent > 0 && this.#torn.raised === whole) this.#torn.raised = !whole
    if (sent > 0 && !whole) this.#retryAtMs = nowMs + RETRY_MS
    return whole
  }

  /** Tries to write what is waiting. */
  flush(nowMs: number): void {
    if (this.#fd === undefined || this.#waitingBytes === 0) return
    if (this.#torn?.raised) this.#wait(0, Buffer.from('\n'))
    const bytes = Buffer.concat(this.#waiting)
    let sent = this.#sentBytes
    while (sent < bytes.length) {
      const more = this.#attempt(this.#fd, bytes.subarray(sent), nowMs)
      if (more === 0) break
      sent += more
    }
    const whole = sent === 0 ? 0 : bytes.lastIndexOf(10, sent - 1) + 1
    this.#waiting = whole === bytes.length ? [] : [bytes.subarray(whole)]
    this.#waitingBytes = bytes.length - whole
    this.#sentBytes = sent - whole
    if (this.#torn?.raised && sent > 0) this.#torn.raised = false
    this.#shareTorn()
  }

  /** Goes on in another file, with `header` and then what is waiting. */
  swap(fd: number, header: string, nowMs: number): void {
    this.close()
    this.#fd = fd
    this.#sizeBytes = 0
    this.#sentBytes = 0
    if (this.#torn !== undefined) this.#torn.raised = false
    this.#wait(0, Buffer.from(header))
    this.flush(nowMs)
  }

  /** Closes the file; lines put later wait for the next one. */
  close(): void {
    const fd = this.#fd
    this.#fd = undefined
    try {
      if (fd !== undefined) closeSync(fd)
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Closes the file and forgets what is waiting, because everything will be put again. */
  abandon(): void {
    this.close()
    this.#waiting = []
    this.#waitingBytes = 0
    this.#sentBytes = 0
  }

  #wait(at: number, bytes: Buffer): void {
    this.#waiting.splice(at, 0, bytes)
    this.#waitingBytes += bytes.length
  }

  /** Where others write as well, the rest of a torn line would not be behind its beginning: the line goes out anew. */
  #shareTorn(): void {
    if (this.#torn === undefined || this.#sentBytes === 0) return
    this.#torn.raised = true
    this.#sentBytes = 0
  }

  /** How many bytes went out; 0 when the attempt failed. */
  #attempt(fd: number, bytes: string | Uint8Array, nowMs: number): number {
    try {
      const sent = this.#write(fd, bytes)
      if (sent === 0) throw new Error('the disk took no byte')
      this.#sizeBytes += sent
      return sent
    } catch (error) {
      this.#retryAtMs = nowMs + RETRY_MS
      this.#failed(error)
      return 0
    }
  }
}
