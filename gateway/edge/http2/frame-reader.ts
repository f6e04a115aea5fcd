import type { ConnectionFrames } from './connection-frames.ts'
import { DATA, type FrameHeader, HEADER_BYTES, MAX_PAYLOAD_BYTES, PADDED } from './frames.ts'

/** Reads frames (RFC 9113 section 4.1) from pieces of any size. Keeps at most one payload. */
export class FrameReader {
  begun = 0
  readonly #sink: ConnectionFrames<unknown>
  readonly #start = Buffer.alloc(HEADER_BYTES)
  #startBytes = 0
  #header: FrameHeader | undefined = undefined
  #dataLeft = 0
  #payload: Buffer | undefined = undefined
  #payloadBytes = 0

  constructor(sink: ConnectionFrames<unknown>) {
    this.#sink = sink
  }

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
    if (length > MAX_PAYLOAD_BYTES) sink.tooLong()
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
