import { DATA, END_STREAM, HEADER_BYTES, MAX_PAYLOAD_BYTES, PADDED } from './frames.ts'

export interface FrameHeader {
  readonly type: number
  readonly flags: number
  /** Without the reserved bit. */
  readonly id: number
  readonly length: number
}

/** Takes the frames of one connection. After a fault it says that it `isOver`, and gets no more. */
export interface FrameSink {
  readonly isOver: boolean
  tooLong(header: FrameHeader): void
  /** A frame begins whose payload comes in pieces, as `data`. */
  beginData(header: FrameHeader): void
  /** A piece of DATA. @param isLast of its frame */
  data(header: FrameHeader, piece: Buffer, isLast: boolean): void
  /** A whole frame: of any other type, or DATA with padding or without content. */
  frame(header: FrameHeader, payload: Buffer): void
}

/** Cuts what a client sends into frames (RFC 9113 section 4.1), in pieces of any size. Keeps at most one payload. */
export class FrameReader {
  begun = 0
  readonly #sink: FrameSink
  readonly #start = Buffer.alloc(HEADER_BYTES)
  #startBytes = 0
  #header: FrameHeader | undefined = undefined
  /** Bytes left of a DATA frame that is passed on in pieces. */
  #dataLeft = 0
  #payload: Buffer | undefined = undefined
  #payloadBytes = 0

  constructor(sink: FrameSink) {
    this.#sink = sink
  }

  /** A part of a frame has come that cannot be passed on. */
  get isPartial(): boolean {
    return this.#startBytes > 0 || this.#payload !== undefined
  }

  read(bytes: Buffer, from: number): void {
    let at = from
    while (at < bytes.length && !this.#sink.isOver) {
      if (this.#dataLeft > 0) at = this.#readData(bytes, at)
      else if (this.#payload !== undefined) at = this.#readPayload(this.#payload, bytes, at)
      else at = this.#readStart(bytes, at)
    }
  }

  #readStart(bytes: Buffer, from: number): number {
    let at = from
    let start = bytes
    if (this.#startBytes > 0 || bytes.length - at < HEADER_BYTES) {
      const copied = bytes.copy(this.#start, this.#startBytes, at)
      this.#startBytes += copied
      at += copied
      if (this.#startBytes < HEADER_BYTES) return at
      this.#startBytes = 0
      start = this.#start
    } else at += HEADER_BYTES
    return this.#begin(headerAt(start, start === bytes ? at - HEADER_BYTES : 0), bytes, at)
  }

  #begin(header: FrameHeader, bytes: Buffer, at: number): number {
    const sink = this.#sink
    const { type, flags, length } = header
    this.begun++
    if (length > MAX_PAYLOAD_BYTES) sink.tooLong(header)
    else if (type === DATA && length > 0 && !(flags & PADDED)) {
      this.#header = header
      this.#dataLeft = length
      sink.beginData(header)
    } else if (bytes.length - at >= length) {
      sink.frame(header, bytes.subarray(at, at + length))
      return at + length
    } else {
      this.#header = header
      this.#payload = Buffer.allocUnsafe(length)
      this.#payloadBytes = 0
    }
    return at
  }

  #readData(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#dataLeft)
    this.#dataLeft -= end - at
    this.#sink.data(this.#header as FrameHeader, bytes.subarray(at, end), this.#dataLeft === 0)
    return end
  }

  #readPayload(payload: Buffer, bytes: Buffer, at: number): number {
    const copied = bytes.copy(payload, this.#payloadBytes, at)
    this.#payloadBytes += copied
    if (this.#payloadBytes === payload.length) {
      this.#payload = undefined
      this.#sink.frame(this.#header as FrameHeader, payload)
    }
    return at + copied
  }
}

function headerAt(bytes: Buffer, at: number): FrameHeader {
  return {
    length: bytes.readUIntBE(at, 3),
    type: bytes[at + 3] as number,
    flags: bytes[at + 4] as number,
    id: bytes.readUInt32BE(at + 5) & 0x7fffffff,
  }
}

/** An honest block has fewer. */
const MAX_FRAMES = 16

/** The compressed fields of HEADERS and the CONTINUATION behind it (RFC 9113 section 4.3). */
export class HeaderBlock {
  readonly id: number
  readonly endsStream: boolean
  /** It says that its stream depends on itself (RFC 7540 section 5.3.1). */
  readonly dependsOnItself: boolean
  readonly #pieces: Buffer[]
  #length: number

  /** @param dependency undefined: it has no priority */
  constructor({ id, flags }: FrameHeader, fields: Buffer, dependency: number | undefined) {
    this.id = id
    this.endsStream = (flags & END_STREAM) !== 0
    this.dependsOnItself = dependency === id
    this.#pieces = [fields]
    this.#length = fields.length
  }

  keep(): void {
    this.#pieces[0] = Buffer.from(this.bytes)
  }

  /** @returns false when it is more than we take */
  add(fields: Buffer, maxBytes: number): boolean {
    this.#pieces.push(Buffer.from(fields))
    this.#length += fields.length
    return this.#length <= maxBytes && this.#pieces.length <= MAX_FRAMES
  }

  get bytes(): Buffer {
    return this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces)
  }
}

/** RFC 9113 section 6.1. @returns undefined when there is more padding than frame */
export function withoutPadding({ flags }: FrameHeader, payload: Buffer): Buffer | undefined {
  if (!(flags & PADDED)) return payload
  const end = payload.length - (payload[0] ?? 0)
  return end < 1 ? undefined : payload.subarray(1, end)
}
