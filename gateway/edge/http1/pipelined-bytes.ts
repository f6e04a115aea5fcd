import type { Socket } from 'node:net'
import { copyOf } from '../bodies/read-buffers.ts'

/** Bounds of what a client may send ahead before its socket is paused. */
const MAX_BYTES = 64 * 1024
const MAX_REQUESTS = 100
const LF = 0x0a

/** Unparsed bytes that come while an earlier request is handled (RFC 9112 section 9.3.2). */
export class PipelinedBytes {
  /** True while the request that is being parsed was taken from here. */
  isBeingRead = false
  readonly #socket: Socket
  #bytes: Buffer | undefined = undefined
  #requests = 0

  constructor(socket: Socket) {
    this.#socket = socket
  }

  get isEmpty(): boolean {
    return this.#bytes === undefined
  }

  /** Estimated by blank lines: each head has one, and a body may have more. */
  get requests(): number {
    return this.isEmpty ? 0 : Math.max(1, this.#requests)
  }

  /** Keeps new bytes, or the rest behind a request taken from here. Pauses the socket when full. */
  keep(bytes: Buffer, from: number, to: number): void {
    if (this.isBeingRead) {
      this.#requests--
      this.#bytes = bytes.subarray(from, to)
    } else {
      if (this.#bytes === undefined) this.#requests = 0
      const piece = copyOf(bytes, from, to)
      this.#requests += blankLinesOf(piece)
      this.#bytes = this.#bytes === undefined ? piece : Buffer.concat([this.#bytes, piece])
    }
    const { length } = this.#bytes
    if (length > MAX_BYTES || (length > 0 && this.#requests > MAX_REQUESTS)) this.#socket.pause()
  }

  take(): Buffer | undefined {
    const bytes = this.#bytes
    this.#bytes = undefined
    return bytes
  }

  drop(): void {
    this.#bytes = undefined
  }
}

function blankLinesOf(bytes: Buffer): number {
  let count = 0
  for (let i = 2; i < bytes.length; i++) if (bytes[i] === LF && bytes[i - 2] === LF) count++
  return count
}
