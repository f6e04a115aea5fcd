import { CHARACTERS, TEXT, TOKEN } from './characters.ts'

const MAX_HEAD_BYTES = 16 * 1024
const MAX_FIELDS = 256
const TAB = 0x09
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
const ZERO = 0x30
const VERSION = 'HTTP/1.'
const NO_LENGTH = -1

type Stage = 'status line' | 'fields' | 'trailers'

/**
 * Reads the head of an answer, or the trailers after its last chunk, piece by piece (RFC 9112 sections 2 to 5). Strict:
 * lines end with CR LF and nothing else, a folded line is refused, a field name is a token with its colon right behind
 * it, no control character stands anywhere. Bounded: 16 KiB and 256 fields.
 *
 * A faulty line is refused when it is complete, and a byte that can be in no line as soon as it comes, so that nobody
 * waits for the rest of something that is no HTTP.
 */
export class HeadParser {
  /** Why the head is refused; undefined while it is not. */
  fault: string | undefined = undefined
  /** The empty line has come. */
  whole = false
  status = 0
  /** 0 or 1: HTTP/1.0 or HTTP/1.1. */
  minor = 1
  /** Flat list: name, value, as received without the white space around a value. */
  headers: string[] = []
  /** Bytes; -1 when there is no Content-Length. */
  contentLength = NO_LENGTH
  /** Transfer-Encoding is there, and is `chunked`. */
  chunked = false
  /** Connection has the option `close`. */
  closes = false
  /** What Keep-Alive says, seconds; undefined when it says nothing. */
  keepAliveSeconds: number | undefined = undefined

  #stage: Stage = 'status line'
  #bytes = 0
  #fields = 0
  /** The beginning of a line whose end has not come. */
  #carried = ''

  begin(): void {
    this.#restart('status line')
    this.headers = []
    this.contentLength = NO_LENGTH
    this.chunked = false
    this.closes = false
    this.keepAliveSeconds = undefined
  }

  /** Trailers are held to the rules of fields and then forgotten. */
  beginTrailers(): void {
    this.#restart('trailers')
  }

  #restart(stage: Stage): void {
    this.fault = undefined
    this.whole = false
    this.#stage = stage
    this.#bytes = 0
    this.#fields = 0
    this.#carried = ''
  }

  /**
   * @param text the next bytes, latin1.
   * @returns how many of them belong to the head; all of them while it is neither `whole` nor has a `fault`.
   */
  read(text: string): number {
    const carried = this.#carried.length
    const all = carried === 0 ? text : this.#carried + text
    let start = 0
    for (let from = carried; ; from = start) {
      const feed = all.indexOf('\n', from)
      if (feed < 0) {
        this.#carry(all, start, from)
        return text.length
      }
      this.#bytes += feed + 1 - start
      if (this.#bytes > MAX_HEAD_BYTES) this.fault = `a head beyond ${MAX_HEAD_BYTES} bytes`
      else if (feed === start || all.charCodeAt(feed - 1) !== CR)
        this.fault = 'a line feed without its carriage return'
      else this.#line(all, start, feed - 1)
      start = feed + 1
      if (this.whole || this.fault !== undefined) {
        this.#carried = ''
        return start - carried
      }
    }
  }

  /** Keeps an unfinished line. @param from where in it the bytes begin that have not been looked at. */
  #carry(all: string, start: number, from: number): void {
    this.#carried = all.slice(start)
    if (this.#bytes + this.#carried.length > MAX_HEAD_BYTES)
      this.fault = `a head beyond ${MAX_HEAD_BYTES} bytes`
    if (this.#stage === 'status line' && !VERSION.startsWith(this.#carried.slice(0, VERSION.length)))
      this.fault = 'no HTTP/1 status line'
    // The last one that was looked at may be a carriage return, whose line feed must be next.
    const last = all.length - 1
    for (let i = Math.max(start, from - 1); i <= last; i++) {
      if (!(bitsAt(all, i) & TEXT) && !(i === last && all.charCodeAt(i) === CR))
        this.fault = 'a control character in the head'
    }
  }

  #line(all: string, start: number, end: number): void {
    if (this.#stage === 'status line') this.#statusLine(all, start, end)
    else if (start === end) this.whole = true
    else this.#field(all, start, end)
  }

  /** RFC 9112 section 4. The space before a reason that is not there is missed out by many, and harmless. */
  #statusLine(all: string, start: number, end: number): void {
    this.#stage = 'fields'
    const minor = all.charCodeAt(start + 7) - ZERO
    const hundreds = all.charCodeAt(start + 9) - ZERO
    const tens = all.charCodeAt(start + 10) - ZERO
    const ones = all.charCodeAt(start + 11) - ZERO
    const isStatusLine =
      end - start >= 12 &&
      all.startsWith(VERSION, start) &&
      (minor === 0 || minor === 1) &&
      all.charCodeAt(start + 8) === SPACE &&
      isDigit(hundreds) &&
      isDigit(tens) &&
      isDigit(ones) &&
      (end === start + 12 || (all.charCodeAt(start + 12) === SPACE && isTextBetween(all, start + 13, end)))
    this.minor = minor
    this.status = hundreds * 100 + tens * 10 + ones
    if (!isStatusLine) this.fault = 'no HTTP/1 status line'
    else if (this.status < 100) this.fault = `status ${this.status}`
  }

  /** RFC 9112 section 5. */
  #field(all: string, start: number, end: number): void {
    let colon = start
    // The carriage return at the end is no token.
    while (bitsAt(all, colon) & TOKEN) colon++
    if (colon === start || all.charCodeAt(colon) !== COLON) this.fault = 'a field without a proper name'
    let from = colon + 1
    while (from < end && isSpace(all.charCodeAt(from))) from++
    let to = end
    while (to > from && isSpace(all.charCodeAt(to - 1))) to--
    if (!isTextBetween(all, from, to)) this.fault ??= 'a control character in a field'
    this.#fields += 1
    if (this.#fields > MAX_FIELDS) this.fault ??= `more than ${MAX_FIELDS} fields`
    if (this.fault !== undefined || this.#stage === 'trailers') return
    const name = all.slice(start, colon)
    const value = all.slice(from, to)
    this.headers.push(name, value)
    this.#note(name, value)
  }

  /** Takes note of what the connection itself must know. */
  #note(name: string, value: string): void {
    if (name.length === 14) {
      if (name.toLowerCase() === 'content-length') this.#noteLength(value)
    } else if (name.length === 17) {
      if (name.toLowerCase() === 'transfer-encoding') this.#noteCoding(value)
    } else if (name.length === 10) {
      const lower = name.toLowerCase()
      if (lower === 'connection') this.closes ||= hasClose(value)
      else if (lower === 'keep-alive') this.#noteKeepAlive(value)
    }
  }

  /** RFC 9112 section 6.3: one, a number, and nothing else. Beyond 2^53 bytes nobody could count. */
  #noteLength(value: string): void {
    const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
    if (!Number.isSafeInteger(bytes)) this.fault = 'a Content-Length that is no number of bytes'
    else if (this.contentLength !== NO_LENGTH) this.fault = 'more than one Content-Length'
    else if (this.chunked) this.fault = 'both Content-Length and Transfer-Encoding'
    else this.contentLength = bytes
  }

  /** RFC 9112 section 6.1. Any other coding nobody would decode, and the client would not be told of it. */
  #noteCoding(value: string): void {
    if (value.toLowerCase() !== 'chunked') this.fault = 'a Transfer-Encoding other than chunked'
    else if (this.chunked) this.fault = 'more than one Transfer-Encoding'
    else if (this.contentLength !== NO_LENGTH) this.fault = 'both Content-Length and Transfer-Encoding'
    else this.chunked = true
  }

  #noteKeepAlive(value: string): void {
    const seconds = /(?:^|[\s,;])timeout=(\d{1,9})(?!\d)/i.exec(value)?.[1]
    if (seconds !== undefined) this.keepAliveSeconds = Number(seconds)
  }
}

/** What comes from a connection is latin1: no character is beyond the table. */
function bitsAt(all: string, at: number): number {
  return CHARACTERS[all.charCodeAt(at)] as number
}

function isTextBetween(all: string, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (!(bitsAt(all, i) & TEXT)) return false
  return true
}

function isDigit(digit: number): boolean {
  return digit >= 0 && digit <= 9
}

function isSpace(code: number): boolean {
  return code === SPACE || code === TAB
}

function hasClose(options: string): boolean {
  if (options === 'keep-alive') return false
  return options.split(',').some((option) => option.trim().toLowerCase() === 'close')
}
