import type { Socket } from 'node:net'

/** RFC 9113 sections 4 and 6. */
export const HEADER_BYTES = 9
/** The least that SETTINGS_MAX_FRAME_SIZE allows; we neither send nor take more. */
export const MAX_PAYLOAD_BYTES = 16_384
export const MAX_WINDOW = 2 ** 31 - 1
export const DEFAULT_WINDOW = 65_535

/** RFC 9113 section 3.4. */
export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'

export const DATA = 0
export const HEADERS = 1
export const PRIORITY = 2
export const RST_STREAM = 3
export const SETTINGS = 4
export const PUSH_PROMISE = 5
export const PING = 6
export const GOAWAY = 7
export const WINDOW_UPDATE = 8
export const CONTINUATION = 9

export const END_STREAM = 0x1
export const ACK = 0x1
export const END_HEADERS = 0x4
export const PADDED = 0x8
export const PRIORITY_FLAG = 0x20

const SETTINGS_HEADER_TABLE_SIZE = 1
const SETTINGS_ENABLE_PUSH = 2
export const SETTINGS_MAX_CONCURRENT_STREAMS = 3
export const SETTINGS_INITIAL_WINDOW_SIZE = 4
const SETTINGS_MAX_FRAME_SIZE = 5
export const SETTINGS_MAX_HEADER_LIST_SIZE = 6

/** Error codes, RFC 9113 section 7. */
export const NO_ERROR = 0
export const PROTOCOL_ERROR = 1
export const INTERNAL_ERROR = 2
export const FLOW_CONTROL_ERROR = 3
export const STREAM_CLOSED = 5
export const FRAME_SIZE_ERROR = 6
export const REFUSED_STREAM = 7
export const CANCEL = 8
export const COMPRESSION_ERROR = 9
export const ENHANCE_YOUR_CALM = 11

const LARGEST_MAX_FRAME_SIZE = 2 ** 24 - 1

/** The SETTINGS that matter (RFC 9113 section 6.5.2): we push nothing, and send short frames only. */
export class ClientSettings {
  initialWindow = DEFAULT_WINDOW
  /** True when the next head must say how much of the client's table we use (RFC 9113 section 4.3.1). */
  isTableResized = false

  /** @returns the error code of a value that is not allowed */
  take(payload: Buffer): number | undefined {
    for (let at = 0; at < payload.length; at += 6) {
      const id = payload.readUInt16BE(at)
      const value = payload.readUInt32BE(at + 2)
      if (id === SETTINGS_INITIAL_WINDOW_SIZE) {
        if (value > MAX_WINDOW) return FLOW_CONTROL_ERROR
        this.initialWindow = value
      } else if (id === SETTINGS_HEADER_TABLE_SIZE) this.isTableResized = true
      else if (id === SETTINGS_ENABLE_PUSH && value > 1) return PROTOCOL_ERROR
      else if (
        id === SETTINGS_MAX_FRAME_SIZE &&
        (value < MAX_PAYLOAD_BYTES || value > LARGEST_MAX_FRAME_SIZE)
      )
        return PROTOCOL_ERROR
    }
    return undefined
  }
}

export interface FrameHeader {
  readonly type: number
  readonly flags: number
  /** Without the reserved bit. */
  readonly id: number
  readonly length: number
}

/** Writes the header, and leaves room for the payload behind it. */
export function newFrame({ type, flags, id, length }: FrameHeader, payloadBytes = length): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payloadBytes)
  frame.writeUIntBE(length, 0, 3)
  frame[3] = type
  frame[4] = flags
  frame.writeUInt32BE(id, 5)
  return frame
}

/** RST_STREAM, WINDOW_UPDATE or GOAWAY. */
export function frameOfNumbers(type: number, id: number, ...numbers: readonly number[]): Buffer {
  const frame = newFrame({ type, flags: 0, id, length: 4 * numbers.length })
  let at = HEADER_BYTES
  for (const number of numbers) at = frame.writeUInt32BE(number, at)
  return frame
}

export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const frame = newFrame({ type: SETTINGS, flags: 0, id: 0, length: 6 * settings.length })
  let at = HEADER_BYTES
  for (const [id, value] of settings) {
    at = frame.writeUInt16BE(id, at)
    at = frame.writeUInt32BE(value, at)
  }
  return frame
}

export function acknowledgement(type: typeof SETTINGS | typeof PING, payload: Buffer): Buffer {
  const frame = newFrame({ type, flags: ACK, id: 0, length: payload.length })
  payload.copy(frame, HEADER_BYTES)
  return frame
}

/** When this many bytes wait, they are written at once, so that a writer sees in time that the client takes no more. */
const MAX_HELD_BYTES = 16 * 1024

/** Writes the frames of one turn as one piece: one system call, one record of TLS. Copying costs less than `cork`. */
export class FrameWriter {
  readonly #socket: Socket
  readonly #onWritten: () => void
  #held: Buffer[] = []
  #heldBytes = 0

  /** @param onWritten called after each piece, which the client may not have taken yet */
  constructor(socket: Socket, onWritten: () => void) {
    this.#socket = socket
    this.#onWritten = onWritten
  }

  get unsentBytes(): number {
    return this.#heldBytes + this.#socket.writableLength
  }

  readonly write = (bytes: Buffer): void => {
    if (!this.#socket.writable) return
    if (this.#held.length === 0) process.nextTick(this.flush)
    this.#held.push(bytes)
    this.#heldBytes += bytes.length
    if (this.#heldBytes >= MAX_HELD_BYTES) this.flush()
  }

  readonly flush = (): void => {
    const held = this.#held
    const [first] = held
    if (first === undefined) return
    this.#held = []
    const bytes = held.length === 1 ? first : Buffer.concat(held, this.#heldBytes)
    this.#heldBytes = 0
    if (this.#socket.writable) this.#socket.write(bytes)
    this.#onWritten()
  }
}
