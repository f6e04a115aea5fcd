import { Decoder } from '@redis/client/dist/lib/RESP/decoder.js'

/** A page of sessions or events takes a quarter of a MB. */
const MAX_REPLY_BYTES = 4 * 1024 * 1024
/** The client makes room for all values that a list announces. */
const MAX_REPLY_VALUES = 100_000
const LENGTH = /^[$*](-1|\d{1,9})\r$/
const MAX_LENGTH_CHARS = 16
const CR = 13
const LF = 10
const TEXT = 36
const LIST = 42
const LINES: ReadonlySet<unknown> = new Set([...'+-:'].map((type) => type.charCodeAt(0)))

/**
 * Follows the replies of one connection (RESP 2). A line or text ends where the client's decoder ends it. That decoder
 * does not check line breaks.
 */
export class ReplyBounds {
  #bytes = 0
  #values = 0
  #open = 0
  /** Bytes still to come of a text and its line break. */
  #textBytes = 0
  /** First byte of the line being read; undefined between lines. */
  #type: number | undefined
  #line = ''
  #isAfterCr = false

  /** @throws RangeError for a reply that is too large or no RESP 2 */
  follow(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      const from = at
      if (this.#textBytes > 0) {
        at = Math.min(chunk.length, at + this.#textBytes)
        this.#textBytes -= at - from
      } else if (this.#isAfterCr) this.#endLine(chunk[at++])
      else at = this.#readLine(chunk, at)
      this.#bytes += at - from
      if (this.#bytes > MAX_REPLY_BYTES) throw tooLarge(`${MAX_REPLY_BYTES} bytes`)
      if (this.#open === 0 && this.#textBytes === 0 && this.#type === undefined)
        this.#bytes = this.#values = 0
    }
  }

  #readLine(chunk: Buffer, from: number): number {
    this.#type ??= chunk[from]
    let to = from
    while (to < chunk.length && chunk[to] !== CR) to++
    this.#isAfterCr = to < chunk.length
    if (this.#isAfterCr) to++
    if ((this.#type === TEXT || this.#type === LIST) && this.#line.length < MAX_LENGTH_CHARS)
      this.#line += chunk.toString('latin1', from, Math.min(to, from + MAX_LENGTH_CHARS))
    return to
  }

  #endLine(last: number | undefined): void {
    const type = this.#type
    const hasLength = type === TEXT || type === LIST
    if (last !== LF || !(hasLength || LINES.has(type)))
      throw new RangeError('a reply of the store is no RESP 2')
    const line = this.#line
    this.#type = undefined
    this.#line = ''
    this.#isAfterCr = false
    if (this.#open > 0) this.#open--
    if (!hasLength) return
    const length = Number(LENGTH.exec(line)?.[1] ?? Number.NaN)
    if (Number.isNaN(length)) throw new RangeError('a reply of the store has a malformed length')
    if (length === -1) return
    if (type === TEXT) this.#textBytes = length + 2
    else {
      this.#open += length
      this.#values += length
    }
    if (this.#textBytes > MAX_REPLY_BYTES) throw tooLarge(`${MAX_REPLY_BYTES} bytes`)
    if (this.#values > MAX_REPLY_VALUES) throw tooLarge(`${MAX_REPLY_VALUES} values`)
  }
}

function tooLarge(bound: string): RangeError {
  return new RangeError(`a reply of the store has more than ${bound}`)
}

/** Bounds the replies of every client of the process, because the library cannot. An error ends the connection. */
export function boundReplies(): void {
  const { write, reset } = Decoder.prototype
  const bounds = new WeakMap<Decoder, ReplyBounds>()
  Decoder.prototype.write = function (chunk: Buffer) {
    bounds.getOrInsertComputed(this, () => new ReplyBounds()).follow(chunk)
    write.call(this, chunk)
  }
  Decoder.prototype.reset = function () {
    bounds.delete(this)
    reset.call(this)
  }
}
