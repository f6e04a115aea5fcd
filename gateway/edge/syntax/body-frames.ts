import { CHARACTERS, TEXT, TOKEN } from './characters.ts'

/** A longer piece is passed on by itself, because moving it would cost more. */
const MAX_JOINED_BYTES = 4096
/** A loop moves so few bytes faster than `copyWithin` does. */
const FEW_BYTES = 16
/** A shorter chunk has hardly more bytes of data than of frame. */
const TINY_BYTES = 8
/** Enough hexadecimal digits for every body, few enough for an exact number. */
const MAX_SIZE_DIGITS = 12
const MAX_EXTENSION_BYTES = 4096
const CR = 0x0d
const LF = 0x0a
const SEMICOLON = 0x3b
const EQUALS = 0x3d
const QUOTE = 0x22
const BACKSLASH = 0x5c

const SIZE = 0
const SIZE_FEED = 1
const DATA = 2
const DATA_RETURN = 3
const DATA_FEED = 4
const LAST = 5
const WHOLE = 6
// States within an extension.
const NAME_START = 7
const NAME = 8
const VALUE_START = 9
// VALUE_START + 1 (10) is the state within a value without quotes.
const QUOTED = 11
const ESCAPED = 12
const UNQUOTED = 13

/** RFC 9112 section 6. A number of bytes (0: no body, infinite: until the connection closes), or chunks. */
type Framing = number | 'chunks'

/**
 * Finds the data of a body between its frames. Reads chunks (RFC 9112 section 7.1) strictly: CR LF alone ends
 * a line, and no white space stands around a size. Skips extensions, and bounds their bytes in the whole body.
 */
export class BodyFrames {
  fault: string | undefined = undefined
  tooLarge = false
  /** End of the data that was taken last. */
  dataEnd = 0
  /** Bytes of the body or the current chunk that are still to come. */
  #left = 0
  #isChunked = false
  #state = WHOLE
  #digits = 0
  #extensionBytes = 0
  #tinyChunks = 0
  readonly #maxTinyChunks: number

  constructor(maxTinyChunks = Number.POSITIVE_INFINITY) {
    this.#maxTinyChunks = maxTinyChunks
  }

  begin(framing: Framing): void {
    this.fault = undefined
    this.tooLarge = false
    this.#isChunked = framing === 'chunks'
    this.#left = framing === 'chunks' ? 0 : framing
    this.#state = framing === 'chunks' ? SIZE : framing === 0 ? WHOLE : DATA
    this.#extensionBytes = 0
    this.#tinyChunks = 0
  }

  /** True once only trailers follow. */
  get last(): boolean {
    return this.#state === LAST
  }

  /** True once all counted bytes have been taken. */
  get whole(): boolean {
    return this.#state === WHOLE
  }

  get hasData(): boolean {
    return this.#state === DATA
  }

  /** Takes the next data and moves the data of short chunks behind it, up to `dataEnd`. @returns where it stopped */
  takeData(bytes: Uint8Array, from: number, to: number): number {
    let at = Math.min(to, from + this.#left)
    this.#taken(at - from)
    this.dataEnd = at
    while (at < to && this.#state !== WHOLE) {
      at = this.read(bytes, at, to)
      const length = Math.min(to - at, this.#left)
      if (this.#state !== DATA || length > MAX_JOINED_BYTES || this.fault !== undefined) break
      this.#move(bytes, at, length)
      this.#taken(length)
      at += length
    }
    return at
  }

  #taken(length: number): void {
    this.#left -= length
    if (this.#left === 0) this.#state = this.#isChunked ? DATA_RETURN : WHOLE
  }

  #move(bytes: Uint8Array, from: number, length: number): void {
    if (length > FEW_BYTES) bytes.copyWithin(this.dataEnd, from, from + length)
    else for (let i = 0; i < length; i++) bytes[this.dataEnd + i] = bytes[from + i] as number
    this.dataEnd += length
  }

  /** Reads until data is next, the last chunk's line is over, or there is a fault. @returns where it stopped */
  read(bytes: Uint8Array, from: number, to: number): number {
    let at = from
    while (at < to && this.#state !== DATA && this.#state !== LAST && this.fault === undefined)
      this.#step(bytes[at++] as number)
    return at
  }

  #step(byte: number): void {
    switch (this.#state) {
      case SIZE:
        this.#size(byte)
        return
      case SIZE_FEED:
        if (byte !== LF) this.fault = 'a carriage return without its line feed after a chunk size'
        this.#digits = 0
        this.#state = this.#left === 0 ? LAST : DATA
        if (this.#left < TINY_BYTES && this.#left > 0) this.#countTiny()
        return
      case DATA_RETURN:
        if (byte !== CR) this.fault = 'a chunk longer than its size'
        this.#state = DATA_FEED
        return
      case DATA_FEED:
        if (byte !== LF) this.fault = 'a carriage return without its line feed after a chunk'
        this.#state = SIZE
        return
      default:
        this.#extension(byte)
    }
  }

  #countTiny(): void {
    this.#tinyChunks += 1
    if (this.#tinyChunks <= this.#maxTinyChunks) return
    this.fault = `more than ${this.#maxTinyChunks} chunks of less than ${TINY_BYTES} bytes`
    this.tooLarge = true
  }

  /** RFC 9112 section 7.1.1: `;name`, `;name=value` or `;name="quoted"`, repeated, without white space. */
  #extension(byte: number): void {
    const bits = CHARACTERS[byte] as number
    const state = this.#state
    this.#extensionBytes += 1
    if (this.#extensionBytes > MAX_EXTENSION_BYTES) {
      this.fault = `chunk extensions beyond ${MAX_EXTENSION_BYTES} bytes`
      this.tooLarge = true
    } else if (state === QUOTED || state === ESCAPED) {
      if (!(bits & TEXT)) this.fault = 'a control character in a chunk extension'
      else if (state === ESCAPED) this.#state = QUOTED
      else if (byte === QUOTE) this.#state = UNQUOTED
      else if (byte === BACKSLASH) this.#state = ESCAPED
    } else if (state === VALUE_START && byte === QUOTE) this.#state = QUOTED
    else if (state === NAME_START || state === VALUE_START) this.#word(bits, state + 1)
    else if (byte === CR) this.#state = SIZE_FEED
    else if (byte === SEMICOLON) this.#state = NAME_START
    else if (byte === EQUALS && state === NAME) this.#state = VALUE_START
    else this.#word(bits, state)
  }

  #word(bits: number, state: number): void {
    if (!(bits & TOKEN) || state === UNQUOTED) this.fault = 'a malformed chunk extension'
    this.#state = state
  }

  #size(byte: number): void {
    const digit = hexValue(byte)
    if (digit >= 0) {
      this.#digits += 1
      this.#left = this.#left * 16 + digit
      if (this.#digits > MAX_SIZE_DIGITS) this.fault = 'a chunk size of too many digits'
    } else if (this.#digits === 0) this.fault = 'a malformed chunk size'
    else if (byte === CR) this.#state = SIZE_FEED
    else if (byte === SEMICOLON) this.#state = NAME_START
    else this.fault = 'a malformed chunk size'
  }
}

function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
