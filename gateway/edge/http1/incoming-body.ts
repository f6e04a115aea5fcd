import type { Socket } from 'node:net'
import { BoundedBody } from '../bodies/bounded-body.ts'
import {
  type BodyReceiver,
  BULK_BYTES,
  copyOf,
  giveBack,
  type Piece,
  pooledCopyOf,
  type ReadBuffer,
} from '../bodies/read-buffers.ts'
import type { ConnectionDeadline } from './connection-deadline.ts'
import { ClientSocket } from './sockets/client-socket.ts'

/** The body of a request. When the client breaks off, it is destroyed without an end. */
export abstract class IncomingBody extends BoundedBody {
  protected readonly deadline: ConnectionDeadline

  constructor(deadline: ConnectionDeadline, highWaterMark: number) {
    super({ highWaterMark, autoDestroy: false })
    this.deadline = deadline
  }

  abstract complete(): void

  endPace(): void {
    this.deadline.endPace()
  }
}

const HIGH_WATER_BYTES = 64 * 1024
/** A shorter piece would leave too much of a pooled buffer empty. */
const POOLED_BYTES = 40 * 1024

/** A body of HTTP/1. A slow reader pauses the socket and the client's deadline. */
export class RequestBody extends IncomingBody {
  readonly #socket: Socket
  /** The buffer that the socket reads into; undefined: each piece has its own memory. */
  readonly #buffer: ReadBuffer | undefined
  #receiver: BodyReceiver | undefined = undefined
  /** Buffers of pieces in the stream, used again only when one receiver gets all of them. */
  readonly #early: Buffer[] = []
  /** True while such a receiver may still come. */
  #mayBePassed = true

  constructor(socket: Socket, deadline: ConnectionDeadline, buffer: ReadBuffer | undefined) {
    super(deadline, HIGH_WATER_BYTES)
    this.#socket = socket
    this.#buffer = buffer
  }

  override _read(): void {
    if (!this.deadline.isBodyHeldBack) return
    this.deadline.resumeBody()
    this.#socket.resume()
  }

  override resume(): this {
    super.resume()
    if (this.#receiver === undefined) this.#expectNoReceiver()
    // Pieces that bypassed the stream did not answer its last `_read`, so the stream does not call `_read` again.
    this._read()
    return this
  }

  /** Sends pieces straight to the receiver while the stream flows and is empty; other pieces come as `data`. */
  override passTo(receiver: BodyReceiver | undefined): void {
    this.#receiver = receiver
    if (receiver === undefined) this.#expectNoReceiver()
    else this.#mayBePassed = true
  }

  #expectNoReceiver(): void {
    this.#mayBePassed = false
    this.#early.length = 0
  }

  receive(piece: Piece): void {
    if (this.destroyed || !this.takes(piece.to - piece.from)) return
    if (this.#pass(piece) || this.#socket.isPaused()) return
    // Nothing is read ahead, which would cost a copy: most bodies wait for a moment only.
    if (this.#socket instanceof ClientSocket) this.#socket.holdBack()
    else this.#socket.pause()
    this.deadline.holdBodyBack()
  }

  /** Called now and then: while a body is held back, only a read shows that its client has gone. */
  readAhead(): void {
    if (this.deadline.isBodyHeldBack && this.#socket instanceof ClientSocket) this.#socket.readAhead()
  }

  #pass(piece: Piece): boolean {
    const { bytes, from, to } = piece
    const receiver = this.#receiver
    const buffer = bytes === this.#buffer?.bytes ? this.#buffer : undefined
    if (receiver === undefined || this.readableFlowing !== true || this.readableLength > 0)
      return this.#keep(piece, buffer !== undefined)
    // The receiver has all earlier pieces, so their buffers can be given back.
    for (let early = this.#early.pop(); early !== undefined; early = this.#early.pop())
      giveBack(early, receiver)
    return buffer === undefined ? receiver.data(bytes.subarray(from, to), 0) : buffer.pass(piece, receiver, 0)
  }

  /** @param isShared true when the next read overwrites the piece */
  #keep(piece: Piece, isShared: boolean): boolean {
    const { bytes, from, to } = piece
    if (this.readableLength > 0 && to - from < BULK_BYTES) return this.gather(bytes, from, to)
    return this.enter(isShared ? this.#copyOf(piece) : bytes.subarray(from, to))
  }

  #copyOf(piece: Piece): Buffer {
    const { bytes, from, to } = piece
    if (!this.#mayBePassed || to - from < POOLED_BYTES) return copyOf(bytes, from, to)
    const copy = pooledCopyOf(piece)
    this.#early.push(copy)
    return copy.subarray(0, to - from)
  }

  complete(): void {
    if (this.#buffer !== undefined) this.#buffer.isBulk = false
    if (!this.isExceeded) this.enterEnd()
    this.#early.length = 0
    // The socket may be paused. What follows the body has its own bound.
    this.#socket.resume()
  }
}
