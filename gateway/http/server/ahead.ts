/** What a client may send ahead while a request of it is being answered; then it is held back. */
const MAX_BYTES = 64 * 1024
const MAX_REQUESTS = 100
const LF = 0x0a

/** What a client has sent before its turn: bytes that nobody has read yet. */
export class Ahead {
  #bytes: Buffer | undefined = undefined
  #requests = 0

  get isEmpty(): boolean {
    return this.#bytes === undefined
  }

  /** No more should be read from the client for now. */
  get isFull(): boolean {
    const length = this.#bytes?.length ?? 0
    return length > MAX_BYTES || (length > 0 && this.#requests > MAX_REQUESTS)
  }

  /** About how many requests there are: blank lines, of which each head has one, and a body may have more. */
  get requests(): number {
    return this.isEmpty ? 0 : Math.max(1, this.#requests)
  }

  /** More has come. */
  add(bytes: Buffer): void {
    if (this.#bytes === undefined) this.#requests = 0
    this.#requests += blankLinesOf(bytes)
    this.#bytes = this.#bytes === undefined ? bytes : Buffer.concat([this.#bytes, bytes])
  }

  take(): Buffer | undefined {
    const bytes = this.#bytes
    this.#bytes = undefined
    return bytes
  }

  /** What stands behind the first request of what was taken last. */
  putBack(bytes: Buffer): void {
    this.#requests--
    this.#bytes = bytes
  }
}

/** Each byte is looked at once, when it comes. */
function blankLinesOf(bytes: Buffer): number {
  let count = 0
  for (let i = 2; i < bytes.length; i++) if (bytes[i] === LF && bytes[i - 2] === LF) count++
  return count
}
