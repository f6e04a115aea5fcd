import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { ConnectionDeadline } from './connection-deadline.ts'

/** The body of a request, whatever its version of HTTP. */
export interface IncomingBody extends Readable {
  /** The last piece has come. */
  complete(): void
  /** The client may take any time for the rest: the reader has another bound. */
  endPace(): void
}

const HIGH_WATER_BYTES = 64 * 1024

/**
 * The body of a request. Destroyed without an end: the client broke off. A slow reader pauses the socket, and the client's
 * deadline with it.
 */
export class RequestBody extends Readable implements IncomingBody {
  readonly #socket: Socket
  readonly #deadline: ConnectionDeadline

  constructor(socket: Socket, deadline: ConnectionDeadline) {
    super({ highWaterMark: HIGH_WATER_BYTES, autoDestroy: false })
    this.#socket = socket
    this.#deadline = deadline
  }

  override _read(): void {
    if (!this.#deadline.isBodyHeldBack) return
    this.#deadline.resumeBody()
    this.#socket.resume()
  }

  /** The next piece has come. */
  receive(piece: Buffer): void {
    if (this.destroyed || this.push(piece) || this.#socket.isPaused()) return
    this.#socket.pause()
    this.#deadline.holdBodyBack()
  }

  endPace(): void {
    this.#deadline.endPace()
  }

  /** The last piece has come. */
  complete(): void {
    this.push(null)
    // The socket may be paused. What follows the body has its own bound.
    this.#socket.resume()
  }
}
