import { ConnectionDeadline, type DeadlineTerms } from './connection-deadline.ts'
import { RequestBody } from './incoming-body.ts'
import { IncomingRequest, type Origin } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'
import { RequestParser } from './request-parser.ts'

/** Reads the requests of one connection, one after the other, and keeps the client's deadline meanwhile. */
export class RequestReader {
  readonly deadline: ConnectionDeadline
  readonly #origin: Origin
  readonly #parser = new RequestParser()
  #body: RequestBody | null = null

  constructor(origin: Origin, terms: DeadlineTerms) {
    this.#origin = origin
    this.deadline = new ConnectionDeadline(terms)
  }

  /** The first byte of a request has come. */
  begin(): void {
    this.#parser.begin()
    this.deadline.beginRequest()
  }

  /** The next request is awaited. */
  idle(): void {
    this.#body = null
    this.#parser.rest()
    this.deadline.idle()
  }

  /** Why the current request will never be complete. */
  get fault(): RequestFault | undefined {
    return this.#parser.fault
  }

  get isHeadComplete(): boolean {
    return this.#parser.headWhole
  }

  /** Of a request whose head is complete. */
  get isComplete(): boolean {
    return this.#parser.whole
  }

  get asksForUpgrade(): boolean {
    return this.#parser.lines.upgrades
  }

  /** The client lets the connection be used again (RFC 9112 section 9.3). */
  get allowsReuse(): boolean {
    const { version, keeps, closes, upgrades } = this.#parser.lines
    return (version === '1.1' || keeps) && !closes && !upgrades
  }

  /** @returns where it stopped: behind the head when that is complete, else at the end or at a fault. */
  readHead(bytes: Buffer, from: number): number {
    const at = this.#parser.readHead(bytes, from)
    if (!this.#parser.headWhole && this.#parser.fault === undefined) this.deadline.awaitHead()
    return at
  }

  /** The request as far as its head has been read. */
  request(): IncomingRequest {
    return new IncomingRequest(this.#origin, this.#parser)
  }

  /** Prepares for the body that a complete head announces. */
  expectBody(req: IncomingRequest): void {
    const { contentLength, hasBody } = req.headers
    this.#parser.frame(contentLength ?? (hasBody ? 'chunks' : 0))
    if (!hasBody) return
    this.deadline.beginBody()
    this.#body = new RequestBody(req.socket, this.deadline)
    req.body = this.#body
  }

  /** @returns where it stopped: behind the request when that is complete, else at the end or at a fault. */
  readBody(bytes: Buffer, from: number): number {
    return this.#parser.readBody(bytes, from, this.#takePiece)
  }

  readonly #takePiece = (piece: Buffer): void => this.#body?.receive(piece)
}
