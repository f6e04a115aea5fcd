import { ConnectionDeadline } from '../http1/connection-deadline.ts'
import type { ConnectionTerms } from '../http1/connection-terms.ts'
import { BODY_LATE, NOT_TAKEN, type RequestFault } from '../http1/handler.ts'
import { IncomingRequest, type Origin } from '../http1/incoming-request.ts'
import { readRequestHeaders } from '../rules/request-headers.ts'
import type { Field } from '../syntax/field.ts'
import {
  DEFAULT_WINDOW,
  ENHANCE_YOUR_CALM,
  frameOfNumbers,
  INTERNAL_ERROR,
  NO_ERROR,
  PROTOCOL_ERROR,
  REFUSED_STREAM,
  WINDOW_UPDATE,
} from './frames.ts'
import { StreamBody } from './stream-body.ts'
import type { StreamHead } from './stream-head.ts'
import { type ResponseCarrier, type ResponseStream, StreamResponse } from './stream-response.ts'
import { isWithoutPlace, type StreamEnd, type StreamPlace } from './stream-table.ts'

const NEVER = Number.POSITIVE_INFINITY
/** How long the rest of a request may come after its response. */
const ANSWERED_MS = 1000
/** Not CANCEL: Node takes a partial response for a complete one whose stream is reset with that, or with NO_ERROR. */
const CLIENT_LATE = ENHANCE_YOUR_CALM
const WRONG_LENGTH: RequestFault = { code: 'malformed_request', cause: 'not as much body as announced' }
const WRONG_TRAILERS: RequestFault = {
  code: 'malformed_request',
  cause: 'trailers that do not end the stream, are too long, or have fields that are none',
}
const NO_PLACE: RequestFault = {
  code: 'overloaded',
  cause: 'more streams than a connection, or an address, may have',
}

export interface StreamCarrier<E> extends Origin, ResponseCarrier {
  readonly terms: ConnectionTerms<E>
  interrupt(exchange: E, fault: RequestFault): void
  /** Bodies whose `passJoined` is called when all that has come is read. */
  readonly joining: StreamBody[]
  /** Forgets the stream. @param code to be sent with RST_STREAM */
  ended(stream: ClientStream<E>, how: StreamEnd, code: number | undefined): void
}

export interface NewStream {
  readonly head: StreamHead
  readonly place: StreamPlace
  /** END_STREAM has come with the head. */
  readonly ended: boolean
}

export class ClientStream<E> implements ResponseStream {
  readonly id: number
  readonly req: IncomingRequest
  readonly res: StreamResponse
  readonly place: StreamPlace
  /** Why the head or the body is refused. */
  fault: RequestFault | undefined
  exchange: E | undefined = undefined
  /** The handler has the request. */
  begun = false
  /** Bytes of the body that the client may send before it gets more credit. */
  receiveWindow = DEFAULT_WINDOW
  isRemoteClosed: boolean
  isOver = false
  readonly #carrier: StreamCarrier<E>
  readonly #body: StreamBody | undefined
  readonly #deadline: ConnectionDeadline | undefined
  #received = 0
  /** When the rest of the request is no longer awaited; infinite until the response is written. */
  #answeredEndMs = NEVER

  constructor(carrier: StreamCarrier<E>, id: number, { head, place, ended }: NewStream) {
    this.#carrier = carrier
    this.id = id
    this.place = place
    this.fault = head.fault ?? (this.isRefused ? NO_PLACE : undefined)
    this.isRemoteClosed = ended
    const headers = readRequestHeaders(head.fields, head.version, carrier.terms.head.maxFields)
    this.req = new IncomingRequest(carrier, head, head.fields, headers)
    this.res = new StreamResponse(carrier, this)
    // RFC 9113 section 8.1.1: the end of the stream is the end of a body without a length.
    if (!ended && headers.contentLength === undefined) headers.hasBody = true
    if (ended) this.#complete()
    else {
      this.#deadline = new ConnectionDeadline(carrier.terms)
      this.#deadline.beginBody()
      if (!headers.hasBody || this.req.isOpaque || this.fault !== undefined) return
      this.#body = new StreamBody(this.#deadline, (bytes) => this.credit(bytes), carrier.joining)
      this.req.body = this.#body
    }
  }

  get isRefused(): boolean {
    return isWithoutPlace(this.place)
  }

  /** A piece of the body. @param isLast END_STREAM stands in its frame */
  receive(piece: Buffer, isLast: boolean): void {
    if (this.#answeredEndMs !== NEVER) return
    this.#received += piece.length
    const announced = this.req.headers.contentLength
    if (announced !== undefined && this.#received > announced) this.#refuseBody(WRONG_LENGTH)
    else if (this.#body === undefined) this.credit(piece.length)
    else {
      if (this.#deadline?.isBodyHeldBack === false) this.#deadline.extendBody(piece.length)
      this.#body.receive(piece, isLast || this.#received === announced)
      this.req.markBegun()
    }
  }

  /** END_STREAM has come. */
  complete(trailers?: readonly Field[]): void {
    this.isRemoteClosed = true
    if (trailers !== undefined) this.req.trailers = trailers
    if (this.#answeredEndMs === NEVER) this.#complete()
    else this.end(undefined)
  }

  #complete(): void {
    this.#deadline?.stop()
    const announced = this.req.headers.contentLength
    if (announced !== undefined && announced !== this.#received) this.#refuseBody(WRONG_LENGTH)
    else if (this.fault === undefined) this.req.markComplete()
  }

  refuseTrailers(): void {
    this.#refuseBody(WRONG_TRAILERS)
  }

  #refuseBody(fault: RequestFault): void {
    if (this.fault !== undefined) return
    this.fault = fault
    this.#deadline?.stop()
    if (this.#answeredEndMs !== NEVER) this.end(PROTOCOL_ERROR)
    else if (this.begun) this.#interrupt(fault)
  }

  #interrupt(fault: RequestFault): void {
    if (this.exchange !== undefined) this.#carrier.interrupt(this.exchange, fault)
  }

  /** Lets the client send so much more of the body. */
  credit(bytes: number): void {
    if (this.isOver || this.isRemoteClosed) return
    this.receiveWindow += bytes
    this.#carrier.write(frameOfNumbers(WINDOW_UPDATE, this.id, bytes))
  }

  checkTime(nowMs: number, idleMs: number): void {
    // RFC 9113 section 8.1: the client need not send the rest.
    if (nowMs >= this.#answeredEndMs) this.end(NO_ERROR)
    if (this.#deadline !== undefined && nowMs >= this.#deadline.atMs) this.#refuseBody(BODY_LATE)
    if (!this.isOver && this.res.isStalled(nowMs, idleMs)) {
      this.#interrupt(NOT_TAKEN)
      this.end(CLIENT_LATE)
    }
  }

  responseWritten(isWhole: boolean): void {
    if (this.fault?.code === 'malformed_request') this.end(PROTOCOL_ERROR)
    // RFC 9113 section 5.1.2 wants the reset, also behind a whole response.
    else if (!isWhole || this.place === 'beyond settings') this.end(REFUSED_STREAM)
    else if (this.isRemoteClosed) this.end(undefined)
    else if (this.isRefused) this.end(NO_ERROR)
    else this.#awaitEnd()
  }

  /** Throws away the rest of the request. Clients that are reset at once may throw the response away instead. */
  #awaitEnd(): void {
    this.#answeredEndMs = this.#carrier.terms.steadyClock() + ANSWERED_MS
    this.#deadline?.stop()
    this.#body?.destroy()
    this.exchange = undefined
    this.res.close()
  }

  breakOff(isLate: boolean): void {
    if (this.fault?.code === 'malformed_request') this.end(PROTOCOL_ERROR)
    else this.end(isLate ? CLIENT_LATE : INTERNAL_ERROR)
  }

  /** RST_STREAM has come, or the connection is lost. */
  reset(): void {
    this.#end('reset by client', undefined)
  }

  /** @param code sent with RST_STREAM; undefined: the client knows that it is over */
  end(code: number | undefined): void {
    this.#end(code === undefined ? 'complete' : 'reset by us', code)
  }

  #end(how: StreamEnd, code: number | undefined): void {
    if (this.isOver) return
    this.isOver = true
    this.#deadline?.stop()
    this.#carrier.ended(this, how, code)
    if (!this.req.complete) this.#body?.destroy()
    this.exchange = undefined
    this.res.close()
  }
}
