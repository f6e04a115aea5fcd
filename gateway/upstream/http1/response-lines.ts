import { type Field, hasOption } from '../../edge/syntax/field.ts'
import { type HeadReader, isTextBetween } from '../../edge/syntax/head-parser.ts'
import { isStatus } from '../message-head.ts'

const SPACE = 0x20
const ZERO = 0x30
const VERSION = 'HTTP/1.'
const NO_LENGTH = -1
const NO_STATUS_LINE = 'no HTTP/1 status line'

/** Reads the lines of a response head (RFC 9112 section 4). */
export class ResponseLines implements HeadReader {
  readonly noStartLine = NO_STATUS_LINE
  status = 0
  /** HTTP/1.0 or HTTP/1.1. */
  minor = 1
  /** -1 when there is no Content-Length. */
  contentLength = NO_LENGTH
  chunked = false
  closes = false
  /** Of Keep-Alive. */
  keepAliveSeconds: number | undefined = undefined

  forgetFields(): void {
    this.contentLength = NO_LENGTH
    this.chunked = false
    this.closes = false
    this.keepAliveSeconds = undefined
  }

  mayBegin(text: string): boolean {
    return VERSION.startsWith(text.slice(0, VERSION.length))
  }

  /** The space after the status may be missing when there is no reason phrase: many servers leave it out. */
  startLine(all: string, start: number, end: number): string | undefined {
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
    if (!isStatusLine) return NO_STATUS_LINE
    return isStatus(this.status) ? undefined : `status ${this.status}`
  }

  field({ lower, value }: Field): string | undefined {
    if (lower === 'content-length') return this.#noteLength(value)
    if (lower === 'transfer-encoding') return this.#noteCoding(value)
    if (lower === 'connection') this.closes ||= hasOption(value, 'close')
    else if (lower === 'keep-alive') this.#noteKeepAlive(value)
    return undefined
  }

  /** RFC 9112 section 6.3: one number, below 2^53. */
  #noteLength(value: string): string | undefined {
    const bytes = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN
    if (!Number.isSafeInteger(bytes)) return 'a Content-Length that is not a number of bytes'
    if (this.contentLength !== NO_LENGTH) return 'more than one Content-Length'
    if (this.chunked) return 'both Content-Length and Transfer-Encoding'
    this.contentLength = bytes
    return undefined
  }

  /** RFC 9112 section 6.1. Any other coding would reach the client encoded and unnamed. */
  #noteCoding(value: string): string | undefined {
    if (value.toLowerCase() !== 'chunked') return 'a Transfer-Encoding other than chunked'
    if (this.chunked) return 'more than one Transfer-Encoding'
    if (this.contentLength !== NO_LENGTH) return 'both Content-Length and Transfer-Encoding'
    this.chunked = true
    return undefined
  }

  #noteKeepAlive(value: string): void {
    const seconds = /(?:^|[\s,;])timeout=(\d{1,9})(?!\d)/i.exec(value)?.[1]
    if (seconds !== undefined) this.keepAliveSeconds = Number(seconds)
  }
}

function isDigit(digit: number): boolean {
  return digit >= 0 && digit <= 9
}
