import type { RefusalCode } from '../../refusals.ts'
import { copyOf, type ReadBuffer } from '../bodies/read-buffers.ts'
import { type HttpVersion, type RequestHeaders, readRequestHeaders } from '../rules/request-headers.ts'
import { BodyFrames } from '../syntax/body-frames.ts'
import { isToken } from '../syntax/characters.ts'
import { type Field, hasOption } from '../syntax/field.ts'
import { HeadParser, type HeadReader, isTextBetween } from '../syntax/head-parser.ts'
import { KNOWN_METHODS, MAX_METHOD_CHARS } from '../syntax/status-codes.ts'
import { ConnectionDeadline, type DeadlineTerms } from './connection-deadline.ts'
import { type RequestFault, type Upgrade, upgradeOf } from './handler.ts'
import { RequestBody } from './incoming-body.ts'
import { IncomingRequest, type Origin } from './incoming-request.ts'
import { ClientSocket } from './sockets/client-socket.ts'

/** More than `admit` accepts, so that it gets the whole head of a request that it refuses. */
const MAX_FIELDS = 4096
/** A bound beside `maxBodyBytes`: a tiny chunk costs more than its bytes. */
const MAX_TINY_CHUNKS = 1_000_000
const CR = 0x0d
const LF = 0x0a

/** `framing`: the head is complete, and `expectBody` is next. */
type Phase = 'head' | 'framing' | 'body' | 'trailers' | 'whole' | 'faulty'

/** Reads the requests of one connection, in pieces of any size (RFC 9112). Sets the client's deadline meanwhile. */
export class RequestReader {
  readonly deadline: ConnectionDeadline
  fault: RequestFault | undefined = undefined
  partialHead: Buffer | undefined = undefined
  readonly #origin: Origin
  readonly #buffer: ReadBuffer | undefined
  readonly #lines = new RequestLines()
  readonly #head: HeadParser
  readonly #maxFields: number
  readonly #frames = new BodyFrames(MAX_TINY_CHUNKS)
  #phase: Phase = 'whole'
  #body: RequestBody | null = null
  #req: IncomingRequest | undefined = undefined
  #headers: RequestHeaders | undefined = undefined
  #fields: readonly Field[] = []
  #version: HttpVersion = '1.1'

  constructor(origin: Origin, terms: DeadlineTerms) {
    this.#origin = origin
    this.#buffer = origin.socket instanceof ClientSocket ? origin.socket.buffer : undefined
    const { maxBytes, maxFields } = terms.head
    this.#head = new HeadParser(this.#lines, { maxBytes, maxFields: MAX_FIELDS })
    this.#maxFields = maxFields
    this.deadline = new ConnectionDeadline(terms)
  }

  begin(): void {
    this.#lines.begin()
    this.#head.begin()
    this.fault = undefined
    this.#phase = 'head'
    this.deadline.beginRequest()
  }

  idle(): void {
    this.#body = null
    this.#req = undefined
    this.partialHead = undefined
    this.#head.rest()
    if (!this.#head.mayRepeat) {
      this.#headers = undefined
      this.#fields = []
    }
    this.deadline.idle()
  }

  close(): void {
    this.#buffer?.release()
  }

  get isHeadComplete(): boolean {
    return this.#phase === 'framing'
  }

  get isComplete(): boolean {
    return this.#phase === 'whole'
  }

  upgradeOf(req: IncomingRequest): Upgrade | undefined {
    return this.#lines.upgrades ? upgradeOf(req) : undefined
  }

  /** True when the client allows reuse of the connection (RFC 9112 section 9.3). */
  get allowsReuse(): boolean {
    const { version, keeps, closes, upgrades } = this.#lines
    return (version === '1.1' || keeps) && !closes && !upgrades
  }

  /** @returns where it stopped: behind a complete head, at a fault, or at the end */
  readHead(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (at < to && this.#phase === 'head') at += this.#readFields(bytes, at, to)
    if (this.#phase === 'head') {
      this.keepPartial(bytes, from, to)
      this.deadline.awaitHead()
    }
    return at
  }

  keepPartial(bytes: Buffer, from: number, to: number): void {
    const piece = copyOf(bytes, from, to)
    this.partialHead = this.partialHead === undefined ? piece : Buffer.concat([this.partialHead, piece])
  }

  /** The request as far as it has been read. Fields equal to those of the last request are not read again. */
  request(): IncomingRequest {
    const { fields } = this.#head
    const { version } = this.#lines
    if (this.#headers === undefined || fields !== this.#fields || version !== this.#version) {
      const made = this.#headers?.made
      this.#headers = readRequestHeaders(fields, version, this.#maxFields)
      this.#headers.made = made
      this.#fields = fields
      this.#version = version
    }
    return new IncomingRequest(this.#origin, this.#lines, fields, this.#headers)
  }

  expectBody(req: IncomingRequest): void {
    const { contentLength, hasBody } = req.headers
    this.#frames.begin(contentLength ?? (hasBody ? 'chunks' : 0))
    this.#phase = hasBody ? 'body' : 'whole'
    if (!hasBody) return
    this.deadline.beginBody()
    this.#body = new RequestBody(req.socket, this.deadline, this.#buffer)
    req.body = this.#body
    this.#req = req
  }

  readAhead(): void {
    this.#body?.readAhead()
  }

  /** @returns as `readHead` does */
  readBody(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (at < to) {
      if (this.#phase === 'body') at = this.#readFrames(bytes, at, to)
      else if (this.#phase === 'trailers') at += this.#readFields(bytes, at, to)
      else return at
    }
    return at
  }

  #readFields(bytes: Buffer, from: number, to: number): number {
    const head = this.#head
    const consumed = head.readBytes(bytes, from, to)
    if (head.fault !== undefined)
      this.#refuse(head.tooLarge ? 'headers_too_large' : 'malformed_request', head.fault)
    else if (head.whole) this.#phase = this.#phase === 'trailers' ? 'whole' : 'framing'
    return consumed
  }

  #readFrames(bytes: Buffer, from: number, to: number): number {
    const frames = this.#frames
    const hasData = frames.hasData
    const at = hasData ? frames.takeData(bytes, from, to) : frames.read(bytes, from, to)
    if (frames.whole) this.#phase = 'whole'
    else if (frames.fault !== undefined)
      this.#refuse(frames.tooLarge ? 'body_too_large' : 'malformed_request', frames.fault)
    else if (frames.last) {
      this.#head.beginTrailers()
      this.#phase = 'trailers'
    }
    if (hasData) {
      this.#body?.receive({ bytes, from, to: frames.dataEnd })
      this.#req?.markBegun()
    }
    return at
  }

  #refuse(code: RefusalCode, cause: string): void {
    this.fault = { code, cause }
    this.#phase = 'faulty'
  }
}

/** Skips empty lines before a request (RFC 9112 section 2.2). */
export function skipEmptyLines(bytes: Buffer, length: number): number {
  let at = 0
  while (at < length && (bytes[at] === CR || bytes[at] === LF)) at++
  return at
}

const SPACE = 0x20
const VERSION = ' HTTP/1.'
const VERSION_LENGTH = VERSION.length + 1

/** Longest text whose request line is kept: a slice keeps the whole text in memory. */
const MAX_KNOWN_CHARS = 4096

/** The request line (RFC 9112 section 3) and the options of Connection. */
export class RequestLines implements HeadReader {
  readonly noStartLine = 'no HTTP/1 request line'
  /** `-` until it has been read. */
  method = '-'
  /** As received; empty until it has been read. */
  target = ''
  version: '1.0' | '1.1' = '1.1'
  /** Options of Connection: `close`, `keep-alive`, `upgrade`. */
  closes = false
  keeps = false
  upgrades = false
  /** The last request line and what it says; empty when not kept. */
  #known = ''
  #knownMethod = ''
  #knownTarget = ''
  #knownVersion: '1.0' | '1.1' = '1.1'

  begin(): void {
    this.method = '-'
    this.target = ''
    this.version = '1.1'
  }

  forgetFields(): void {
    this.closes = false
    this.keeps = false
    this.upgrades = false
  }

  mayBegin(text: string): boolean {
    const space = text.indexOf(' ')
    // A longer method is checked when it is complete.
    return space < 0
      ? isToken(text.slice(0, MAX_METHOD_CHARS).replace('\r', ''))
      : this.#takeMethod(text.slice(0, space))
  }

  /** Keeps the method of a refused line too, because a response to HEAD must not have a body. */
  #takeMethod(method: string): boolean {
    if (!KNOWN_METHODS.has(method) && !isToken(method)) return false
    this.method = method.slice(0, MAX_METHOD_CHARS)
    return true
  }

  startLine(all: string, start: number, end: number): string | undefined {
    const line = all.length <= MAX_KNOWN_CHARS ? all.slice(start, end) : ''
    if (line !== '' && line === this.#known) {
      this.method = this.#knownMethod
      this.target = this.#knownTarget
      this.version = this.#knownVersion
      return undefined
    }
    const space = all.indexOf(' ', start)
    const method = all.slice(start, Math.max(start, space))
    const versionAt = end - VERSION_LENGTH
    const minor = all[end - 1] ?? ''
    const isRequestLine =
      space > start &&
      this.#takeMethod(method) &&
      versionAt > space + 1 &&
      all.startsWith(VERSION, versionAt) &&
      minor >= '0' &&
      minor <= '9' &&
      isVisibleBetween(all, space + 1, versionAt)
    if (!isRequestLine) return this.noStartLine
    this.target = all.slice(space + 1, versionAt)
    // A higher minor version is read as 1.1 (RFC 9110 section 2.5).
    this.version = minor === '0' ? '1.0' : '1.1'
    this.#known = line
    if (line === '') return undefined
    this.#knownMethod = this.method
    this.#knownTarget = this.target
    this.#knownVersion = this.version
    return undefined
  }

  field({ lower, value }: Field): undefined {
    if (lower !== 'connection') return
    this.closes ||= hasOption(value, 'close')
    this.keeps ||= hasOption(value, 'keep-alive')
    this.upgrades ||= hasOption(value, 'upgrade')
  }
}

/** False for white space: two readers could see two different targets (RFC 9112 section 3). */
function isVisibleBetween(all: string, start: number, end: number): boolean {
  if (!isTextBetween(all, start, end)) return false
  for (let i = start; i < end; i++) if (all.charCodeAt(i) <= SPACE) return false
  return true
}
