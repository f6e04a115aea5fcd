import type { ConnectionTerms } from '../http1/connection-terms.ts'
import type { OutgoingResponse, ResponseHead } from '../http1/handler.ts'
import type { IncomingRequest } from '../http1/incoming-request.ts'
import { dateOf } from '../syntax/timestamp.ts'
import type { ConnectionGuard } from './connection-guard.ts'
import {
  type ClientSettings,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADER_BYTES,
  HEADERS,
  MAX_PAYLOAD_BYTES,
  writeFrameHeader,
} from './frames.ts'
import { encodeFields, encodeHead, TABLE_UNUSED } from './hpack/head-encoder.ts'

/** A longer piece is written without a copy behind its frame header. */
const MAX_COPIED_BYTES = 4 * 1024
const NEVER = Number.POSITIVE_INFINITY

export interface ResponseCarrier {
  /** Written, and not taken by the client. */
  readonly unsentBytes: number
  readonly terms: Pick<ConnectionTerms<unknown>, 'clock' | 'steadyClock'>
  readonly guard: ConnectionGuard
  /** How many bytes of DATA the client takes on all streams together. */
  sendWindow: number
  /** Nothing more should be written for now; every response is pumped when that ends. */
  readonly isCongested: boolean
  readonly settings: ClientSettings
  /** Takes no new streams, and ends with the last one. */
  retire(): void
  write(bytes: Buffer): void
}

export interface ResponseStream {
  readonly id: number
  readonly req: IncomingRequest
  /** It has no place: what of its response the windows do not allow at once is not sent. */
  readonly isRefused: boolean
  /** The response has been written. @param isWhole to its last byte */
  responseWritten(isWhole: boolean): void
  /** Ends the stream with an error. @param isLate the client was */
  breakOff(isLate: boolean): void
}

/**
 * The response on one stream (RFC 9113 section 8.1). The head waits for the first piece of the body. What the client's window
 * does not allow yet is kept, and `write` says that no more should come.
 */
export class StreamResponse implements OutgoingResponse {
  keepAlive = true
  idleMs: number | undefined = undefined
  headersSent = false
  /** Bytes of DATA that the client takes of this stream; SETTINGS may make it negative. */
  window: number
  readonly #carrier: ResponseCarrier
  readonly #stream: ResponseStream
  /** Encoded, until it is sent. */
  #head = ''
  #flushes = false
  /** Encoded, until they are sent. */
  #trailers = ''
  #bodiless = false
  /** Bytes of the body that have not been written; undefined when the length is not announced. */
  #bytesLeft: number | undefined = undefined
  #queue: Buffer[] = []
  /** Offset in the first piece of the queue. */
  #queuedFrom = 0
  #held = false
  #ended = false
  /** END_STREAM is written. */
  #whole = false
  #closed = false
  /** Since when the client has taken nothing of what is queued. */
  #stalledSinceMs = NEVER
  #drainListeners: (() => void)[] = []
  #closeListeners: (() => void)[] = []

  constructor(carrier: ResponseCarrier, stream: ResponseStream) {
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
    this.#bodiless = this.#stream.req.method === 'HEAD' || status === 204 || status === 304
    this.#bytesLeft = this.#bodiless ? undefined : contentLength
    const date = dated ? '' : `Date: ${dateOf(this.#carrier.terms.clock())}\r\n`
    this.#head = encodeHead(status, lines + date)
  }

  flushHead(): void {
    if (this.#head === '') return
    this.headersSent = true
    this.#flushes = true
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
    // A length that was announced is kept, and ends the stream.
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

  /** For the stream: calls the listeners of `onClose`. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#queue = []
    this.#stalledSinceMs = NEVER
    for (const listener of this.#closeListeners) listener()
  }

  isStalled(nowMs: number, usualIdleMs: number): boolean {
    return nowMs >= this.#stalledSinceMs + (this.idleMs ?? usualIdleMs)
  }

  /** Writes what the windows allow. */
  pump(): void {
    if (this.#held || this.#closed) return
    // The last announced byte can be written before the response is ended.
    if (!this.#whole) this.#pumpRest()
    if (this.#ended && (this.#whole || this.#stream.isRefused)) this.#stream.responseWritten(this.#whole)
    else if (this.#acceptsMore && this.#drainListeners.length > 0)
      for (const listener of this.#drainListeners.splice(0)) listener()
  }

  #pumpRest(): void {
    if (this.#head !== '' && (this.#flushes || this.#queue.length > 0 || this.#ended)) this.#pumpHead()
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
    const frame = Buffer.allocUnsafe(HEADER_BYTES + (isCopied ? length : 0))
    const flags = isLast ? END_STREAM : 0
    writeFrameHeader(frame, 0, { type: DATA, flags, id: this.#stream.id, length })
    if (isCopied) part.copy(frame, HEADER_BYTES)
    this.#carrier.write(frame)
    if (!isCopied) this.#carrier.write(part)
  }

  #sendEnd(): void {
    this.#whole = true
    if (this.#trailers !== '') {
      this.#sendHead(this.#trailers, END_STREAM)
      return
    }
    const frame = Buffer.allocUnsafe(HEADER_BYTES)
    writeFrameHeader(frame, 0, { type: DATA, flags: END_STREAM, id: this.#stream.id, length: 0 })
    this.#carrier.write(frame)
  }

  /** In several frames when it is long. @param fields one block, latin1 */
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
      const frame = Buffer.allocUnsafe(HEADER_BYTES + part.length)
      const all = isLast ? own | END_HEADERS : own
      const at = writeFrameHeader(frame, 0, { type, flags: all, id, length: part.length })
      frame.write(part, at, 'latin1')
      this.#carrier.write(frame)
      type = CONTINUATION
      own = 0
    }
  }
}
