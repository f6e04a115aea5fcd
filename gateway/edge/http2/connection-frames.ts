import type { HeadBounds } from '../http1/connection-deadline.ts'
import type { RequestFault } from '../http1/handler.ts'
import type { ClientStream, StreamCarrier } from './client-stream.ts'
import {
  ACK,
  acknowledgement,
  COMPRESSION_ERROR,
  CONTINUATION,
  DATA,
  END_HEADERS,
  END_STREAM,
  ENHANCE_YOUR_CALM,
  FLOW_CONTROL_ERROR,
  FRAME_SIZE_ERROR,
  type FrameHeader,
  frameOfNumbers,
  GOAWAY,
  HEADERS,
  MAX_WINDOW,
  PADDED,
  PING,
  PRIORITY,
  PRIORITY_FLAG,
  PROTOCOL_ERROR,
  PUSH_PROMISE,
  RST_STREAM,
  SETTINGS,
  STREAM_CLOSED,
  WINDOW_UPDATE,
} from './frames.ts'
import { HeadDecoder, type HeadSink } from './hpack/head-decoder.ts'
import { StreamHead, Trailers } from './stream-head.ts'
import type { StreamTable } from './stream-table.ts'

export interface FrameUser<E> extends StreamCarrier<E> {
  readonly isOver: boolean
  readonly isSecure: boolean
  readonly head: HeadBounds
  readonly streams: StreamTable<ClientStream<E>>
  /** Ends the connection by GOAWAY. */
  fail(code: number): void
  resetStream(id: number, code: number): void
  open(id: number, head: StreamHead, endsStream: boolean): void
  /** Called when more may be sent on all streams. */
  pumpAll(): void
}

/** Bytes that a client may send on all streams together before it gets credit. */
export const CONNECTION_WINDOW = 1024 * 1024
const TABLE_BYTES = 4096
/** An honest head has fewer frames. */
const MAX_HEAD_FRAMES = 16
const IGNORED: HeadSink = { take: () => {} }
const DEPENDS_ON_ITSELF: RequestFault = {
  code: 'malformed_request',
  cause: 'a stream that depends on itself',
}

/** The fields of HEADERS and the CONTINUATION behind it (RFC 9113 section 4.3). */
interface HeaderBlock {
  readonly id: number
  readonly endsStream: boolean
  /** The stream that this one depends on (RFC 7540 section 5.3.1); undefined: none. */
  readonly dependency: number | undefined
  bytes: Buffer
  frames: number
}

/** The meaning and order of frames (RFC 9113 sections 5 and 6). */
export class ConnectionFrames<E> {
  readonly #user: FrameUser<E>
  readonly #decoder = new HeadDecoder(TABLE_BYTES)
  /** Set while its CONTINUATION is awaited. Meanwhile no other frame may come. */
  #block: HeaderBlock | undefined = undefined
  #receiveWindow = CONNECTION_WINDOW
  /** True once SETTINGS have come: they must come first. */
  isSettled = false

  constructor(user: FrameUser<E>) {
    this.#user = user
  }

  get isOver(): boolean {
    return this.#user.isOver
  }

  get isInHead(): boolean {
    return this.#block !== undefined
  }

  tooLong(): void {
    this.#user.fail(FRAME_SIZE_ERROR)
  }

  /** Takes the header of DATA. The payload comes in pieces, by `data`. */
  beginData(header: FrameHeader): void {
    this.#settle(this.#outOfOrder(header) ?? this.#takeData(header))
  }

  data({ id, flags }: FrameHeader, piece: Buffer, isLast: boolean): void {
    const endsStream = isLast && (flags & END_STREAM) !== 0
    this.#receiving(id)?.receive(piece, endsStream)
    if (endsStream) this.#receiving(id)?.complete()
  }

  /** Takes a whole frame: of any other type, or DATA with padding or without content. */
  frame(header: FrameHeader, payload: Buffer): void {
    this.#settle(this.#outOfOrder(header) ?? this.#take(header, payload))
  }

  #settle(code: number | undefined): void {
    if (code !== undefined) this.#user.fail(code)
  }

  /** @returns the code of a fault of the connection, as the methods for each type do */
  #take(header: FrameHeader, payload: Buffer): number | undefined {
    switch (header.type) {
      case DATA:
        return this.#paddedData(header, payload)
      case HEADERS:
        return this.#headers(header, payload)
      case CONTINUATION:
        return this.#continuation(header, payload)
      case RST_STREAM:
        return this.#reset(header)
      case SETTINGS:
        return this.#settings(header, payload)
      case PING:
        return this.#ping(header, payload)
      case GOAWAY:
        return this.#goAway(header)
      case WINDOW_UPDATE:
        return this.#windowUpdate(header, payload)
      case PRIORITY:
        return this.#priority(header, payload)
      case PUSH_PROMISE:
        return PROTOCOL_ERROR
      default:
        return this.#noise()
    }
  }

  #outOfOrder({ type, id }: FrameHeader): number | undefined {
    const block = this.#block
    const isExpected = block === undefined ? type !== CONTINUATION : type === CONTINUATION && id === block.id
    return isExpected && (this.isSettled || type === SETTINGS) ? undefined : PROTOCOL_ERROR
  }

  #noise(): number | undefined {
    return this.#user.guard.allowsNoise() ? undefined : ENHANCE_YOUR_CALM
  }

  /** Resets a stream for a fault of the client. This counts like a reset by the client itself (CVE-2025-8671). */
  #resetFor(id: number, code: number): number | undefined {
    this.#user.resetStream(id, code)
    return this.#user.guard.allowsReset() ? undefined : ENHANCE_YOUR_CALM
  }

  /** Undefined when no more of the stream's body may come. */
  #receiving(id: number): ClientStream<E> | undefined {
    const stream = this.#user.streams.get(id)
    return stream?.isRemoteClosed === false ? stream : undefined
  }

  /** Takes DATA off the windows (RFC 9113 section 6.9), also for a stream that is over. */
  #takeData({ id, length, flags }: FrameHeader): number | undefined {
    const { streams, guard } = this.#user
    this.#receiveWindow -= length
    if (this.#receiveWindow < 0) return FLOW_CONTROL_ERROR
    if (id === 0 || streams.isIdle(id)) return PROTOCOL_ERROR
    if (this.#receiveWindow < CONNECTION_WINDOW / 2) {
      this.#user.write(frameOfNumbers(WINDOW_UPDATE, 0, CONNECTION_WINDOW - this.#receiveWindow))
      this.#receiveWindow = CONNECTION_WINDOW
    }
    guard.dataPassed(length)
    if (!(flags & END_STREAM) && !guard.allowsShort(length)) return ENHANCE_YOUR_CALM
    const stream = streams.get(id)
    // The frame was under way when we reset the stream.
    if (stream === undefined && streams.endOf(id) === 'reset by us') return undefined
    if (stream === undefined || stream.isRemoteClosed) return this.#resetFor(id, STREAM_CLOSED)
    stream.receiveWindow -= length
    return stream.receiveWindow < 0 ? this.#resetFor(id, FLOW_CONTROL_ERROR) : undefined
  }

  #paddedData(header: FrameHeader, payload: Buffer): number | undefined {
    const content = withoutPadding(header, payload)
    if (content === undefined) return PROTOCOL_ERROR
    const code = this.#takeData(header)
    if (code !== undefined) return code
    const padding = payload.length - content.length
    if (padding > 0) {
      if (this.#noise() !== undefined) return ENHANCE_YOUR_CALM
      this.#receiving(header.id)?.credit(padding)
    }
    if (content.length > 0) this.data(header, content, true)
    else if (header.flags & END_STREAM) this.#receiving(header.id)?.complete()
    return undefined
  }

  #headers(header: FrameHeader, payload: Buffer): number | undefined {
    const content = withoutPadding(header, payload)
    if (content === undefined || header.id % 2 === 0) return PROTOCOL_ERROR
    const hasPriority = (header.flags & PRIORITY_FLAG) !== 0
    if (hasPriority && content.length < 5) return PROTOCOL_ERROR
    const block: HeaderBlock = {
      id: header.id,
      endsStream: (header.flags & END_STREAM) !== 0,
      dependency: hasPriority ? content.readUInt32BE(0) & 0x7fffffff : undefined,
      bytes: hasPriority ? content.subarray(5) : content,
      frames: 1,
    }
    if (header.flags & END_HEADERS) return this.#endBlock(block)
    block.bytes = Buffer.from(block.bytes)
    this.#block = block
    return undefined
  }

  #continuation({ flags }: FrameHeader, payload: Buffer): number | undefined {
    const block = this.#block as HeaderBlock
    block.bytes = Buffer.concat([block.bytes, payload])
    block.frames++
    const isTooLong = block.bytes.length > 2 * this.#user.head.maxBytes
    if (isTooLong || block.frames > MAX_HEAD_FRAMES) return ENHANCE_YOUR_CALM
    if (!(flags & END_HEADERS)) return undefined
    this.#block = undefined
    return this.#endBlock(block)
  }

  /** Decodes unwanted blocks too, because they change the table. */
  #endBlock(block: HeaderBlock): number | undefined {
    const { streams } = this.#user
    const { id } = block
    const stream = streams.get(id)
    if (streams.isIdle(id)) return this.#begin(block)
    if (this.#noise() !== undefined) return ENHANCE_YOUR_CALM
    if (stream !== undefined) return this.#trailers(stream, block)
    const end = streams.endOf(id)
    if (end === 'reset by us') return this.#decode(block, IGNORED)
    return end === undefined ? PROTOCOL_ERROR : STREAM_CLOSED
  }

  #begin(block: HeaderBlock): number | undefined {
    const { id } = block
    this.#user.streams.lastId = id
    const head = new StreamHead(this.#user.isSecure, this.#user.head.maxBytes)
    const code = this.#decode(block, head)
    if (code !== undefined) return code
    head.complete()
    if (block.dependency === id) head.fault ??= DEPENDS_ON_ITSELF
    if (head.fault !== undefined && this.#noise() !== undefined) return ENHANCE_YOUR_CALM
    this.#user.open(id, head, block.endsStream)
    return undefined
  }

  #trailers(stream: ClientStream<E>, block: HeaderBlock): number | undefined {
    const trailers = new Trailers(this.#user.head.maxBytes)
    const code = this.#decode(block, trailers)
    if (code !== undefined) return code
    if (stream.isRemoteClosed) return this.#resetFor(stream.id, STREAM_CLOSED)
    if (trailers.isMalformed || !block.endsStream) stream.refuseTrailers()
    else stream.complete(trailers.fields)
    return undefined
  }

  #decode(block: HeaderBlock, sink: HeadSink): number | undefined {
    if (!this.#decoder.decode(block.bytes, sink)) return COMPRESSION_ERROR
    return this.#user.guard.allowsFields(this.#decoder.fields) ? undefined : ENHANCE_YOUR_CALM
  }

  #reset({ id, length }: FrameHeader): number | undefined {
    const { streams, guard } = this.#user
    if (length !== 4) return FRAME_SIZE_ERROR
    if (id === 0 || streams.isIdle(id)) return PROTOCOL_ERROR
    if (!guard.allowsReset()) return ENHANCE_YOUR_CALM
    streams.get(id)?.reset()
    return undefined
  }

  #settings({ id, flags, length }: FrameHeader, payload: Buffer): number | undefined {
    if (id !== 0) return PROTOCOL_ERROR
    const isAck = (flags & ACK) !== 0
    if (isAck ? length !== 0 : length % 6 !== 0) return FRAME_SIZE_ERROR
    if (this.#noise() !== undefined) return ENHANCE_YOUR_CALM
    if (isAck) return this.isSettled ? undefined : PROTOCOL_ERROR
    this.isSettled = true
    const { settings } = this.#user
    const before = settings.initialWindow
    const code = settings.take(payload)
    if (code !== undefined) return code
    // This is sent before any frame that obeys the new settings.
    this.#user.write(acknowledgement(SETTINGS, Buffer.alloc(0)))
    return this.#widen(settings.initialWindow - before)
  }

  /** Changes the windows of open streams too (RFC 9113 section 6.9.2). */
  #widen(bytes: number): number | undefined {
    if (bytes === 0) return undefined
    let isTooWide = false
    this.#user.streams.visitAll(({ res }) => {
      res.window += bytes
      isTooWide ||= res.window > MAX_WINDOW
    })
    if (isTooWide) return FLOW_CONTROL_ERROR
    this.#user.pumpAll()
    return undefined
  }

  #ping({ id, flags, length }: FrameHeader, payload: Buffer): number | undefined {
    if (id !== 0) return PROTOCOL_ERROR
    if (length !== 8) return FRAME_SIZE_ERROR
    if (!(flags & ACK)) this.#user.write(acknowledgement(PING, payload))
    return this.#noise()
  }

  #goAway({ id }: FrameHeader): number | undefined {
    if (id !== 0) return PROTOCOL_ERROR
    this.#user.retire()
    return this.#noise()
  }

  #priority({ id, length }: FrameHeader, payload: Buffer): number | undefined {
    if (id === 0) return PROTOCOL_ERROR
    if (length !== 5) return FRAME_SIZE_ERROR
    if (this.#noise() !== undefined) return ENHANCE_YOUR_CALM
    if ((payload.readUInt32BE(0) & 0x7fffffff) !== id) return undefined
    if (this.#user.streams.isIdle(id)) return PROTOCOL_ERROR
    return this.#resetFor(id, PROTOCOL_ERROR)
  }

  #windowUpdate({ id, length }: FrameHeader, payload: Buffer): number | undefined {
    const user = this.#user
    if (length !== 4) return FRAME_SIZE_ERROR
    if (this.#noise() !== undefined) return ENHANCE_YOUR_CALM
    const bytes = payload.readUInt32BE(0) & 0x7fffffff
    if (id === 0) {
      user.sendWindow += bytes
      if (bytes === 0) return PROTOCOL_ERROR
      if (user.sendWindow > MAX_WINDOW) return FLOW_CONTROL_ERROR
      user.pumpAll()
      return undefined
    }
    if (user.streams.isIdle(id)) return PROTOCOL_ERROR
    const stream = user.streams.get(id)
    if (stream === undefined) return undefined
    stream.res.window += bytes
    if (bytes === 0) return this.#resetFor(id, PROTOCOL_ERROR)
    if (stream.res.window > MAX_WINDOW) return this.#resetFor(id, FLOW_CONTROL_ERROR)
    stream.res.pump()
    return undefined
  }
}

/** Strips padding (RFC 9113 section 6.1). @returns undefined when it is longer than the payload */
function withoutPadding({ flags }: FrameHeader, payload: Buffer): Buffer | undefined {
  if (!(flags & PADDED)) return payload
  const end = payload.length - (payload[0] ?? 0)
  return end < 1 ? undefined : payload.subarray(1, end)
}
