const HEAD_END = Buffer.from('\r\n\r\n')
const CONTENT_LENGTH = /\r\ncontent-length: (\d+)\r\n/i
const GOOD = 'HTTP/1.1 200'

/**
 * Reads the answers on one connection, one at a time, and holds each against what was to come: status 200 and exactly
 * the expected number of bytes.
 */
export class AnswerReader {
  readonly #bodyBytes: number
  /** Bytes of the body still to come; undefined while the head is read. */
  #left: number | undefined = undefined
  /** The beginning of a head that came in pieces. */
  #piece: Buffer | undefined = undefined

  constructor(bodyBytes: number) {
    this.#bodyBytes = bodyBytes
  }

  /** @returns true when the answer is whole. Throws when it is not the one that was to come. */
  take(bytes: Buffer): boolean {
    if (this.#left === undefined) {
      const all = this.#piece === undefined ? bytes : Buffer.concat([this.#piece, bytes])
      const end = all.indexOf(HEAD_END)
      if (end < 0) {
        // The caller uses its buffer again.
        this.#piece = Buffer.from(all)
        return false
      }
      this.#piece = undefined
      this.#checkHead(all.toString('latin1', 0, end + 2))
      this.#left = this.#bodyBytes - (all.length - end - HEAD_END.length)
    } else this.#left -= bytes.length
    if (this.#left > 0) return false
    if (this.#left < 0) throw new Error(`${-this.#left} bytes after the end of an answer`)
    this.#left = undefined
    return true
  }

  #checkHead(head: string): void {
    if (!head.startsWith(GOOD)) throw new Error(`an answer that is not 200: ${head.slice(0, 300)}`)
    const length = CONTENT_LENGTH.exec(head)?.[1]
    if (Number(length) !== this.#bodyBytes) {
      throw new Error(`an answer of ${length ?? 'unknown'} bytes instead of ${this.#bodyBytes}`)
    }
  }
}
