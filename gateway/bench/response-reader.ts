const HEAD_END = Buffer.from('\r\n\r\n')
const CONTENT_LENGTH = /\r\ncontent-length: (\d+)\r\n/i
const GOOD = 'HTTP/1.1 200'

/** Reads a connection's responses one by one. Each must be a 200, of exactly the expected length if there is one. */
export class ResponseReader {
  readonly #bodyBytes: number | undefined
  /** Missing bytes of the body; undefined while the head is read. */
  #left: number | undefined = undefined
  /** The first part of a head that comes in pieces. */
  #piece: Buffer | undefined = undefined

  constructor(bodyBytes: number | undefined) {
    this.#bodyBytes = bodyBytes
  }

  /** Returns true when the response is complete. Throws when it is not the expected one. */
  take(bytes: Buffer): boolean {
    if (this.#left === undefined) {
      const all = this.#piece === undefined ? bytes : Buffer.concat([this.#piece, bytes])
      const end = all.indexOf(HEAD_END)
      if (end < 0) {
        // The caller reuses its buffer.
        this.#piece = Buffer.from(all)
        return false
      }
      this.#piece = undefined
      this.#left = this.#lengthIn(all.toString('latin1', 0, end + 2)) - (all.length - end - HEAD_END.length)
    } else this.#left -= bytes.length
    if (this.#left > 0) return false
    if (this.#left < 0) throw new Error(`${-this.#left} bytes after the end of a response`)
    this.#left = undefined
    return true
  }

  #lengthIn(head: string): number {
    if (!head.startsWith(GOOD)) throw new Error(`a response that is not 200: ${head.slice(0, 300)}`)
    const length = CONTENT_LENGTH.exec(head)?.[1]
    if (length === undefined || Number(length) !== (this.#bodyBytes ?? Number(length))) {
      throw new Error(
        `a response of ${length ?? 'unknown'} bytes instead of ${this.#bodyBytes ?? 'any known number'}`,
      )
    }
    return Number(length)
  }
}
