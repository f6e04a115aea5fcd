import { ConnectionDeadline } from '../http1/connection-deadline.ts'
import type { ConnectionTerms } from '../http1/connection-terms.ts'
import {
  BODY_LATE,
  NOT_TAKEN,
  type OutgoingResponse,
  type RequestFault,
  type ResponseHead,
} from '../http1/handler.ts'
import { IncomingRequest, type Origin } from '../http1/incoming-request.ts'
import { readRequestHeaders } from '../rules/request-headers.ts'
import type { Field } from '../syntax/field.ts'
import { isBodiless } from '../syntax/status-codes.ts'
import { dateOf } from '../syntax/timestamp.ts'
import type { ConnectionGuard } from './connection-guard.ts'
import {
  type ClientSettings,
  CONTINUATION,
  DATA,
  DEFAULT_WINDOW,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  frameOfNumbers,
  HEADER_BYTES,
  HEADERS,
  INTERNAL_ERROR,
  MAX_PAYLOAD_BYTES,
  NO_ERROR,
  newFrame,
  PROTOCOL_ERROR,
  REFUSED_STREAM,
  WINDOW_UPDATE,
} from './frames.ts'
import { encodeFields, encodeHead, TABLE_UNUSED } from './hpack/head-encoder.ts'
import { StreamBody } from './stream-body.ts'
import type { StreamHead } from './stream-head.ts'
import { isWithoutPlace, type StreamEnd, type StreamPlace } from './stream-table.ts'

/** Longer DATA is written apart from its frame header. */
const MAX_COPIED_BYTES = 4 * 1024
const NEVER = Number.POSITIVE_INFINITY
/** How long we take the rest of a request after its response. */
const ANSWERED_MS = 1000
/** Not CANCEL or NO_ERROR: after them Node's client takes a partial response as complete. */
const CLIENT_LATE = ENHANCE_YOUR_CALM
const WRONG_LENGTH: RequestFault = {
  code: 'malformed_request',
  cause: 'the body is shorter or longer than its Content-Length',
}
const WRONG_TRAILERS: RequestFault = {
  code: 'malformed_request',
  cause: 'trailers that do not end the stream, are too long, or have an invalid name or value',
}
const NO_PLACE: RequestFault = {
  code: 'overloaded',
  cause: 'more streams than a connection, or an address, may have',
}

export interface StreamCarrier<E> extends Origin {
  readonly terms: ConnectionTerms<E>
  readonly guard: ConnectionGuard
  readonly settings: ClientSettings
  /** How many bytes of DATA the client takes on all streams together. */
  sendWindow: number
  /** When DATA was last sent, on any stream. */
  dataSentMs: number
  readonly unsentBytes: number
  /** True while nothing more should be written. Afterwards `pump` of every response is called. */
  readonly isCongested: boolean
  write(bytes: Buffer): void
  retire(): void
  interrupt(exchange: E, fault: RequestFault): void
  /** Bodies whose `passJoined` is called after each socket read. */
  readonly joining: StreamBody[]
  /** @param code for RST_STREAM */
  ended(stream: ClientStream<E>, how: StreamEnd, code: number | undefined): void
}

export class ClientStream<E> {
  readonly id: number
  readonly req: IncomingRequest
  readonly res: StreamResponse
  readonly place: StreamPlace
  fault: RequestFault | undefined
  exchange: E | undefined = undefined
  /** True once the handler has the request. */
  begun = false
  receiveWindow = DEFAULT_WINDOW
  isRemoteClosed: boolean
  isOver = false
  readonly #carrier: StreamCarrier<E>
  readonly #body: StreamBody | undefined
  readonly #deadline: ConnectionDeadline | undefined
  #received = 0
  /** End of the time for the rest of the request; infinite until the response is written. */
  #answeredEndMs = NEVER

  /** @param ended true when END_STREAM has come with the head */
  constructor(
    carrier: StreamCarrier<E>,
    id: number,
    {
      head,
      place,
      ended,
    }: { readonly head: StreamHead; readonly place: StreamPlace; readonly ended: boolean },
  ) {
    this.#carrier = carrier
    this.id = id
    this.place = place
    this.fault = head.fault ?? (this.isRefused ? NO_PLACE : undefined)
    this.isRemoteClosed = ended
    const headers = readRequestHeaders(head.fields, head.version, carrier.terms.head.maxFields)
    this.req = new IncomingRequest(carrier, head, head.fields, headers)
    this.res = new StreamResponse(carrier, this)
    // The end of the stream ends a body without a length (RFC 9113 section 8.1).
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

  /** True when the stream has no place. The client gets only as much of the refusal as the windows allow at once. */
  get isRefused(): boolean {
    return isWithoutPlace(this.place)
  }

  /** @param isLast true when the piece ends a frame with END_STREAM */
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

  /** Called when END_STREAM has come. */
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

  credit(bytes: number): void {
    if (this.isOver || this.isRemoteClosed) return
    this.receiveWindow += bytes
    this.#carrier.write(frameOfNumbers(WINDOW_UPDATE, this.id, bytes))
  }

  checkTime(nowMs: number, idleMs: number): void {
    // The client need not send the rest (RFC 9113 section 8.1).
    if (nowMs >= this.#answeredEndMs) this.end(NO_ERROR)
    if (this.#deadline !== undefined && nowMs >= this.#deadline.atMs) this.#refuseBody(BODY_LATE)
    if (!this.isOver && this.res.isStalled(nowMs, idleMs)) {
      this.#interrupt(NOT_TAKEN)
      this.end(CLIENT_LATE)
    }
  }

  /** @param isWhole true when the last byte of the response has been written */
  responseWritten(isWhole: boolean): void {
    if (this.fault?.code === 'malformed_request') this.end(PROTOCOL_ERROR)
    // A stream beyond the settings must be reset, also after a whole response (RFC 9113 section 5.1.2).
    else if (!isWhole || this.place === 'beyond settings') this.end(REFUSED_STREAM)
    else if (this.isRemoteClosed) this.end(undefined)
    else if (this.isRefused) this.end(NO_ERROR)
    else this.#awaitEnd()
  }

  /** Throws the rest of the request away. If we reset the stream at once, the client might lose the response. */
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

  /** Called when RST_STREAM has come, or the connection is lost. */
  reset(): void {
    this.#end('reset by client', undefined)
  }

  /** @param code for RST_STREAM; undefined: the client knows that the stream is over */
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

/** The response on one stream (RFC 9113 section 8.1). Its head waits for the first piece of the body. */
class StreamResponse implements OutgoingResponse {
  keepAlive = true
  idleMs: number | undefined = undefined
  headersSent = false
  /** How many bytes of DATA the client takes on this stream; SETTINGS may make it negative. */
  window: number
  readonly #carrier: StreamCarrier<unknown>
  readonly #stream: ClientStream<unknown>
  /** Encoded; empty once sent. */
  #head = ''
  #trailers = ''
  #bodiless = false
  /** Bytes of the body still to be written; undefined without an announced length. */
  #bytesLeft: number | undefined = undefined
  #queue: Buffer[] = []
  #queuedFrom = 0
  #held = false
  #ended = false
  /** True once END_STREAM is written. */
  #whole = false
  #closed = false
  /** The time since which the client has taken nothing of the queue. */
  #stalledSinceMs = NEVER
  #drainListeners: (() => void)[] = []
  #closeListeners: (() => void)[] = []

  constructor(carrier: StreamCarrier<unknown>, stream: ClientStream<unknown>) {
    this.#carrier = carrier
    this.#stream = stream
    this.window = carrier.settings.initialWindow
  }

  retireConnection(): void {
    this.#carrier.retire()
  }

  onClose(listener: () => void): void {
    this.#closeListeners.push(listener)
  }

  onDrain(listener: () => void): void {
    this.#drainListeners.push(listener)
  }

  writeInterim(status: number, lines: string): void {
    if (!this.#ended && !this.#closed && !this.headersSent) this.#sendHead(encodeHead(status, lines), 0)
  }

  writeHead({ status, lines, contentLength, dated }: ResponseHead): void {
    if (this.#ended) return
    this.#bodiless = isBodiless(this.#stream.req.method, status)
    this.#bytesLeft = this.#bodiless ? undefined : contentLength
    const date = dated ? '' : `Date: ${dateOf(this.#carrier.terms.clock())}\r\n`
    this.#head = encodeHead(status, lines + date)
  }

  flushHead(): void {
    if (this.#head === '') return
    this.headersSent = true
    this.pump()
  }

  write(piece: Buffer): boolean {
    if (this.#ended || this.#closed || this.#bodiless || piece.length === 0) return true
    this.headersSent = true
    if (this.#bytesLeft !== undefined) this.#bytesLeft -= piece.length
    this.#queue.push(piece)
    this.pump()
    return this.#acceptsMore
  }

  get #acceptsMore(): boolean {
    return this.#queue.length === 0 && !this.#carrier.isCongested
  }

  get isHolding(): boolean {
    return this.#queue.length > 0 || this.#carrier.unsentBytes > 0
  }

  end(trailers = ''): void {
    if (this.#ended) return
    // The last byte of an announced length ends the stream, so no trailers follow.
    if (!this.#bodiless && this.#bytesLeft === undefined) this.#trailers = encodeFields(trailers)
    this.#ended = true
    this.headersSent = true
    this.pump()
  }

  hold(): () => void {
    this.#held = true
    return () => {
      this.#held = false
      this.pump()
    }
  }

  switch(): void {
    throw new Error('a stream of HTTP/2 cannot switch protocols')
  }

  breakOff(isLate = false): void {
    if (!this.#closed) this.#stream.breakOff(isLate)
  }

  /** Only the stream calls it. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#queue = []
    this.#stalledSinceMs = NEVER
    for (const listener of this.#closeListeners) listener()
  }

  /** While the window is open, DATA sent on any stream counts as progress: this response waits for its turn. */
  isStalled(nowMs: number, usualIdleMs: number): boolean {
    const waitedMs = this.window > 0 ? nowMs - this.#carrier.dataSentMs : NEVER
    return Math.min(nowMs - this.#stalledSinceMs, waitedMs) >= (this.idleMs ?? usualIdleMs)
  }

  pump(): void {
    if (this.#held || this.#closed) return
    // The last announced byte can be written before the response is ended.
    if (!this.#whole) this.#pumpRest()
    if (this.#ended && (this.#whole || this.#stream.isRefused)) this.#stream.responseWritten(this.#whole)
    else if (this.#acceptsMore && this.#drainListeners.length > 0)
      for (const listener of this.#drainListeners.splice(0)) listener()
  }

  #pumpRest(): void {
    if (this.#head !== '' && this.headersSent) this.#pumpHead()
    this.#pumpBody()
    if (this.#ended && this.#queue.length === 0 && !this.#whole) this.#sendEnd()
  }

  #pumpHead(): void {
    const isLast = this.#ended && this.#queue.length === 0 && this.#trailers === ''
    this.#sendHead(this.#head, isLast ? END_STREAM : 0)
    this.#head = ''
    this.#whole = isLast
  }

  #pumpBody(): void {
    const carrier = this.#carrier
    const before = this.#queue.length
    let sent = 0
    for (let piece = this.#queue[0]; piece !== undefined && !carrier.isCongested; piece = this.#queue[0]) {
      const room = Math.min(this.window, carrier.sendWindow, MAX_PAYLOAD_BYTES)
      if (room <= 0) break
      const to = Math.min(piece.length, this.#queuedFrom + room)
      const part = piece.subarray(this.#queuedFrom, to)
      const isWhole = part.length === piece.length
      this.#queuedFrom = to
      if (to === piece.length) {
        this.#queue.shift()
        this.#queuedFrom = 0
      }
      this.#sendData(part)
      carrier.guard.dataPassed(part.length, isWhole)
      sent += part.length
    }
    if (sent > 0) carrier.dataSentMs = carrier.terms.steadyClock()
    if (this.#queue.length === 0) this.#stalledSinceMs = NEVER
    else if (sent > 0 || before === 0 || this.#stalledSinceMs === NEVER)
      this.#stalledSinceMs = carrier.terms.steadyClock()
  }

  #sendData(part: Buffer): void {
    const { length } = part
    const isEnd = (this.#ended && this.#trailers === '') || (this.#bytesLeft ?? 1) <= 0
    const isLast = isEnd && this.#queue.length === 0
    this.window -= length
    this.#carrier.sendWindow -= length
    this.#whole = isLast
    const isCopied = length <= MAX_COPIED_BYTES
    const flags = isLast ? END_STREAM : 0
    const frame = newFrame({ type: DATA, flags, id: this.#stream.id, length }, isCopied ? length : 0)
    if (isCopied) part.copy(frame, HEADER_BYTES)
    this.#carrier.write(frame)
    if (!isCopied) this.#carrier.write(part)
  }

  #sendEnd(): void {
    this.#whole = true
    if (this.#trailers !== '') this.#sendHead(this.#trailers, END_STREAM)
    else this.#carrier.write(newFrame({ type: DATA, flags: END_STREAM, id: this.#stream.id, length: 0 }))
  }

  /** @param fields one block, latin1 */
  #sendHead(fields: string, flags: number): void {
    const { settings } = this.#carrier
    const block = settings.isTableResized ? TABLE_UNUSED + fields : fields
    settings.isTableResized = false
    const { id } = this.#stream
    let type = HEADERS
    let own = flags
    for (let from = 0; from < block.length || type === HEADERS; from += MAX_PAYLOAD_BYTES) {
      const part = block.slice(from, from + MAX_PAYLOAD_BYTES)
      const isLast = from + part.length === block.length
      const all = isLast ? own | END_HEADERS : own
      const frame = newFrame({ type, flags: all, id, length: part.length })
      frame.write(part, HEADER_BYTES, 'latin1')
      this.#carrier.write(frame)
      type = CONTINUATION
      own = 0
    }
  }
}
