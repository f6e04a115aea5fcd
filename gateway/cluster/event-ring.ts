/**
 * A change that one thread has made and every other thread must apply too, in the same order and with the same time. What
 * the kinds mean is up to publishers and handlers.
 */
export interface ClusterEvent {
  /** 1 to 255. */
  readonly kind: number
  /** 32-bit integer; its meaning depends on the kind. */
  readonly id: number
  /** Epoch milliseconds with fractions. */
  readonly atMs: number
  readonly text: string
}

/** Bytes before the text: length, kind and encoding, id, length of the text, time. */
const HEAD_BYTES = 24
/** Marks unused bytes at the end of the ring, where the next event did not fit. */
const SKIP = 0
const WIDE = 1 << 8
const KIND = 0xff

/**
 * Events in shared memory, one after the other, each in one piece. Positions are byte counts that only grow, modulo 2³².
 * The caller decides who may write, and what may be overwritten.
 */
export class Ring {
  readonly #bytes: Buffer
  readonly #words: Int32Array
  readonly #floats: Float64Array
  readonly #mask: number

  constructor(memory: SharedArrayBuffer) {
    this.#bytes = Buffer.from(memory)
    this.#words = new Int32Array(memory)
    this.#floats = new Float64Array(memory)
    this.#mask = memory.byteLength - 1
  }

  /** Bytes that an event with that text takes at that position, including skipped bytes. */
  bytesFor(text: string, position: number): number {
    const bytes = sizeOf(text, isWide(text))
    const left = this.#mask + 1 - (position & this.#mask)
    return left < bytes ? left + bytes : bytes
  }

  /** @throws RangeError when an event with that text takes more bytes, without skipped ones */
  checkSize(text: string, maxBytes: number): void {
    const bytes = sizeOf(text, isWide(text))
    if (bytes > maxBytes) throw new RangeError(`an event of ${bytes} bytes is too long`)
  }

  /** Writes the event. @returns the position after it */
  write(event: ClusterEvent, position: number): number {
    const wide = isWide(event.text)
    const size = sizeOf(event.text, wide)
    const left = this.#mask + 1 - (position & this.#mask)
    if (left >= size) return this.#put(event, position, { size, wide })
    // Two words always fit, because all sizes are multiples of eight bytes.
    const word = (position & this.#mask) >>> 2
    this.#words[word] = left
    this.#words[word + 1] = SKIP
    return this.#put(event, (position + left) >>> 0, { size, wide })
  }

  /** @returns the event at that position; undefined where bytes are skipped */
  read(position: number): ClusterEvent | undefined {
    const at = position & this.#mask
    const word = at >>> 2
    const form = this.#words[word + 1] as number
    if (form === SKIP) return undefined
    const textBytes = this.#words[word + 3] as number
    const start = at + HEAD_BYTES
    const text = this.#bytes.toString((form & WIDE) === 0 ? 'latin1' : 'utf16le', start, start + textBytes)
    return {
      kind: form & KIND,
      id: this.#words[word + 2] as number,
      atMs: this.#floats[(at + 16) >>> 3] as number,
      text,
    }
  }

  /** The position after the entry at that position. */
  after(position: number): number {
    return (position + (this.#words[(position & this.#mask) >>> 2] as number)) >>> 0
  }

  #put({ kind, id, atMs, text }: ClusterEvent, position: number, { size, wide }: Form): number {
    const at = position & this.#mask
    const word = at >>> 2
    this.#words[word] = size
    this.#words[word + 1] = wide ? kind | WIDE : kind
    this.#words[word + 2] = id
    this.#words[word + 3] = wide ? text.length * 2 : text.length
    this.#floats[(at + 16) >>> 3] = atMs
    // Not UTF-8: it would encode different unpaired surrogates alike.
    this.#bytes.write(text, at + HEAD_BYTES, wide ? 'utf16le' : 'latin1')
    return (position + size) >>> 0
  }
}

interface Form {
  readonly size: number
  readonly wide: boolean
}

function sizeOf(text: string, wide: boolean): number {
  return (HEAD_BYTES + (wide ? text.length * 2 : text.length) + 7) & ~7
}

/** Not ASCII only. */
function isWide(text: string): boolean {
  return Buffer.byteLength(text) !== text.length
}
