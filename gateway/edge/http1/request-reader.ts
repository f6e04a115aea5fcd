import type { RefusalCode } from '../../refusals.ts'
import { copyOf, type ReadBuffer } from '../bodies/read-buffers.ts'
import { type HttpVersion, type RequestHeaders, readRequestHeaders } from '../rules/request-headers.ts'
import { BodyFrames } from '../syntax/body-frames.ts'
import type { Field } from '../syntax/field.ts'
import { HeadParser } from '../syntax/head-parser.ts'
import { ConnectionDeadline, type DeadlineTerms } from './connection-deadline.ts'
import { RequestBody } from './incoming-body.ts'
import { IncomingRequest, type Origin } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'
import { RequestLines } from './request-lines.ts'
import { ClientSocket } from './sockets/client-socket.ts'
import { type Upgrade, upgradeOf } from './tunnels/websocket.ts'

/** More than `admit` accepts, so that `admit` refuses with everything the head says. */
const MAX_FIELDS = 4096
/** Chunks of a few bytes cost more than their bytes, whatever `maxBodyBytes` is. */
const MAX_TINY_CHUNKS = 1_000_000
const CR = 0x0d
const LF = 0x0a

/** `framing`: the head is complete, and `expectBody` is next. */
type Phase = 'head' | 'framing' | 'body' | 'trailers' | 'whole' | 'faulty'

/**
 * Reads the requests of one connection, one after the other, in pieces of any size (RFC 9112), and keeps the client's
 * deadline meanwhile.
 */
export class RequestReader {
  readonly deadline: ConnectionDeadline
  /** Why the current request will never be complete. */
  fault: RequestFault | undefined = undefined
  /** What has come of a head that is not complete yet. */
  partialHead: Buffer | undefined = undefined
  readonly #origin: Origin
  /** What the socket reads into, if it is ours. */
  readonly #buffer: ReadBuffer | undefined
  readonly #lines = new RequestLines()
  readonly #head: HeadParser
  readonly #maxFields: number
  readonly #frames = new BodyFrames(MAX_TINY_CHUNKS)
  #phase: Phase = 'whole'
  #body: RequestBody | null = null
  /** What was read of the last request's fields. */
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

  /** The first byte of a request has come. */
  begin(): void {
    this.#lines.begin()
    this.#head.begin()
    this.fault = undefined
    this.#phase = 'head'
    this.deadline.beginRequest()
  }

  /** The next request is awaited. */
  idle(): void {
    this.#body = null
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

  /** Of a request whose head is complete. */
  get isComplete(): boolean {
    return this.#phase === 'whole'
  }

  /** What a request whose Connection names Upgrade asks for. */
  upgradeOf(req: IncomingRequest): Upgrade | undefined {
    return this.#lines.upgrades ? upgradeOf(req) : undefined
  }

  /** The client lets the connection be used again (RFC 9112 section 9.3). */
  get allowsReuse(): boolean {
    const { version, keeps, closes, upgrades } = this.#lines
    return (version === '1.1' || keeps) && !closes && !upgrades
  }

  /** @returns where it stopped: behind the head when that is complete, else at the end or at a fault. */
  readHead(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (at < to && this.#phase === 'head') at += this.#readFields(bytes, at, to)
    if (this.#phase === 'head') {
      const piece = copyOf(bytes, from, to)
      this.partialHead = this.partialHead === undefined ? piece : Buffer.concat([this.partialHead, piece])
      this.deadline.awaitHead()
    }
    return at
  }

  /** The request as far as its head has been read. Fields that are all those of the one before are not read again. */
  request(): IncomingRequest {
    const { fields } = this.#head
    const { version } = this.#lines
    if (this.#headers === undefined || fields !== this.#fields || version !== this.#version) {
      this.#headers = readRequestHeaders(fields, version, this.#maxFields)
      this.#fields = fields
      this.#version = version
    }
    return new IncomingRequest(this.#origin, this.#lines, fields, this.#headers)
  }

  /** Prepares for the body that a complete head announces. */
  expectBody(req: IncomingRequest): void {
    const { contentLength, hasBody } = req.headers
    this.#frames.begin(contentLength ?? (hasBody ? 'chunks' : 0))
    this.#phase = hasBody ? 'body' : 'whole'
    if (!hasBody) return
    this.deadline.beginBody()
    this.#body = new RequestBody(req.socket, this.deadline, this.#buffer)
    req.body = this.#body
  }

  /** To be called now and then. */
  readAhead(): void {
    this.#body?.readAhead()
  }

  /** @returns where it stopped: behind the request when that is complete, else at the end or at a fault. */
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
    if (hasData) this.#body?.receive({ bytes, from, to: frames.dataEnd })
    return at
  }

  #refuse(code: RefusalCode, cause: string): void {
    this.fault = { code, cause }
    this.#phase = 'faulty'
  }
}

/** Skips empty lines before a request (RFC 9112 section 2.2). @returns the position of the first other byte. */
export function skipEmptyLines(bytes: Buffer, length: number): number {
  let at = 0
  while (at < length && (bytes[at] === CR || bytes[at] === LF)) at++
  return at
}
