import { BodyFrames } from '../../edge/syntax/body-frames.ts'
import { type Field, hasOption } from '../../edge/syntax/field.ts'
import { HeadParser, type HeadReader, isTextBetween } from '../../edge/syntax/head-parser.ts'
import { isStatus, lengthIn, MAX_INTERIM, MAX_RESPONSE_HEAD_BYTES } from '../message-head.ts'

const SPACE = 0x20
const ZERO = 0x30
const VERSION = 'HTTP/1.'
const NO_LENGTH = -1
const NO_STATUS_LINE = 'no HTTP/1 status line'
/** A response that ends the sessions of a user may have 900 `X-Revoke-Session` fields. */
const MAX_FIELDS = 1024

/** Each method may call `stop` of the parser. */
export interface ResponseReader {
  interim(status: number, fields: readonly Field[]): void
  head(status: number, fields: readonly Field[]): void
  /** The buffer is overwritten afterwards. Returns `false` to pause. */
  data(bytes: Buffer, from: number, to: number): boolean
}

export interface PendingRequest {
  readonly method: string
  readonly upgrade: string | undefined
}

/** `whole`: nothing beyond the response was read. `switched`: further bytes are not HTTP. `stopped`: reads no byte. */
export type Phase = 'head' | 'body' | 'trailers' | 'until close' | 'whole' | 'switched' | 'faulty' | 'stopped'

/** Takes pieces of any size (RFC 9112). */
export class ResponseParser {
  phase: Phase = 'stopped'
  /** True while the reader takes no data; framing is still parsed. */
  held = false
  fault = ''
  /** True once a byte of the response, interim or final, has come. */
  began = false
  readonly #reader: ResponseReader
  readonly #lines = new ResponseLines()
  readonly #head = new HeadParser(this.#lines, { maxBytes: MAX_RESPONSE_HEAD_BYTES, maxFields: MAX_FIELDS })
  readonly #frames = new BodyFrames()
  #request: PendingRequest = { method: '', upgrade: undefined }
  #interim = 0
  /** True when a bodiless response (RFC 9112 section 6.3) announced a body, which must not become the next response. */
  #mayHaveStrays = false

  constructor(reader: ResponseReader) {
    this.#reader = reader
  }

  expect(request: PendingRequest): void {
    this.#request = request
    this.#head.begin()
    this.phase = 'head'
    this.held = false
    this.began = false
    this.#interim = 0
    this.#mayHaveStrays = false
  }

  stop(): void {
    this.phase = 'stopped'
  }

  /** RFC 9112 section 9.3. */
  get keepsConnection(): boolean {
    return this.#lines.minor === 1 && !this.#lines.closes && !this.#mayHaveStrays
  }

  get keepAliveSeconds(): number | undefined {
    return this.#lines.keepAliveSeconds
  }

  get fields(): readonly Field[] {
    return this.#head.fields
  }

  /** @returns where it stopped: before `to` when held, or when `whole`, `switched`, `faulty` or `stopped` */
  read(bytes: Buffer, from: number, to: number): number {
    this.began = true
    let at = from
    while (at < to) {
      if (this.phase === 'head' || this.phase === 'trailers') at += this.#readFields(bytes, at, to)
      else if (this.phase === 'body' || this.phase === 'until close') {
        if (this.held && this.#frames.hasData) return at
        at = this.#readFrames(bytes, at, to)
      } else return at
    }
    return at
  }

  #readFields(bytes: Buffer, from: number, to: number): number {
    const head = this.#head
    const consumed = head.readBytes(bytes, from, to)
    if (head.fault !== undefined) this.#refuse(head.fault)
    else if (head.whole && this.phase === 'trailers') this.phase = 'whole'
    else if (head.whole) this.#headWhole()
    return consumed
  }

  #headWhole(): void {
    const { status, chunked, contentLength } = this.#lines
    const { fields } = this.#head
    const isBodiless = status < 200 || status === 204 || status === 304
    if (isBodiless && (chunked || contentLength > 0)) this.#mayHaveStrays = true
    if (status >= 200) this.#finalHead(isBodiless)
    else if (status === 101) {
      if (this.#request.upgrade === undefined) this.#refuse('status 101, but no upgrade was asked for')
      else this.phase = 'switched'
    } else if (++this.#interim > MAX_INTERIM) this.#refuse(`more than ${MAX_INTERIM} interim responses`)
    else {
      this.#head.begin()
      this.#reader.interim(status, fields)
    }
  }

  #finalHead(isBodiless: boolean): void {
    const { status, chunked, contentLength } = this.#lines
    // The phase is set before the call, because the reader may call `stop`.
    if (isBodiless || this.#request.method === 'HEAD' || contentLength === 0) this.phase = 'whole'
    else {
      const isUntilClose = !chunked && contentLength < 0
      this.#frames.begin(chunked ? 'chunks' : isUntilClose ? Number.POSITIVE_INFINITY : contentLength)
      this.phase = isUntilClose ? 'until close' : 'body'
    }
    this.#reader.head(status, this.#head.fields)
  }

  #readFrames(bytes: Buffer, from: number, to: number): number {
    const frames = this.#frames
    const hasData = frames.hasData
    const at = hasData ? frames.takeData(bytes, from, to) : frames.read(bytes, from, to)
    // The phase is set before the call, because the reader may call `stop`.
    if (frames.whole) this.phase = 'whole'
    else if (frames.fault !== undefined) this.#refuse(frames.fault)
    else if (frames.last) {
      this.#head.beginTrailers()
      this.phase = 'trailers'
    }
    if (hasData && !this.#reader.data(bytes, from, frames.dataEnd)) this.held = true
    return at
  }

  #refuse(fault: string): void {
    this.fault = fault
    this.phase = 'faulty'
  }
}

/** RFC 9112 section 4. */
export class ResponseLines implements HeadReader {
  readonly noStartLine = NO_STATUS_LINE
  status = 0
  /** Minor version of HTTP. */
  minor = 1
  contentLength = NO_LENGTH
  chunked = false
  closes = false
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

  /** Many servers leave out the space after the status when there is no reason phrase. */
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

  #noteLength(value: string): string | undefined {
    const bytes = lengthIn(value)
    if (bytes === undefined) return 'a Content-Length that is not a number of bytes'
    if (this.contentLength !== NO_LENGTH) return 'more than one Content-Length'
    if (this.chunked) return 'both Content-Length and Transfer-Encoding'
    this.contentLength = bytes
    return undefined
  }

  /** RFC 9112 section 6.1. Another coding would reach the client without its name. */
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
