import { BoundedBody } from '../bodies/bounded-body.ts'
import type { ConnectionDeadline } from '../server/connection-deadline.ts'
import type { IncomingBody } from '../server/incoming-body.ts'
import { DEFAULT_WINDOW } from './frames.ts'

const HIGH_WATER_BYTES = 32 * 1024
/** The client is told that it may send more when it may send only so much. */
const CREDIT_BYTES = DEFAULT_WINDOW >> 1

/**
 * The body of a request. Destroyed without an end: the client broke off. The client may send more only as this is read, and its
 * deadline waits while nobody reads.
 */
export class StreamBody extends BoundedBody implements IncomingBody {
  readonly #deadline: ConnectionDeadline
  readonly #credit: (bytes: number) => void
  /** Received, and not given back to the client's window. */
  #uncredited = 0

  /** @param credit lets the client send so many bytes more */
  constructor(deadline: ConnectionDeadline, credit: (bytes: number) => void) {
    super({ highWaterMark: HIGH_WATER_BYTES, autoDestroy: false })
    this.#deadline = deadline
    this.#credit = credit
  }

  override _read(): void {
    if (!this.#deadline.isBodyHeldBack) return
    this.#deadline.resumeBody()
    this.#giveBack()
  }

  /** The next piece has come. @param isLast no other follows */
  receive(piece: Buffer, isLast: boolean): void {
    if (this.destroyed) return
    this.#uncredited += piece.length
    if (!this.takes(piece.length)) return
    if (!this.#keep(piece, isLast)) {
      if (!this.#deadline.isBodyHeldBack) this.#deadline.holdBodyBack()
    } else if (this.#uncredited >= CREDIT_BYTES) this.#giveBack()
  }

  /** A piece that waits would keep all that was read with it. A body that came at once is read at once. */
  #keep(piece: Buffer, isLast: boolean): boolean {
    if (this.readableLength > 0) return this.gather(piece, 0, piece.length)
    if (this.readableFlowing === true || isLast) return this.push(piece)
    const copy = Buffer.allocUnsafeSlow(piece.length)
    piece.copy(copy)
    return this.push(copy)
  }

  endPace(): void {
    this.#deadline.endPace()
  }

  /** The last piece has come. */
  complete(): void {
    this.#uncredited = 0
    if (!this.isExceeded) this.enterEnd()
  }

  #giveBack(): void {
    const bytes = this.#uncredited
    this.#uncredited = 0
    if (bytes > 0 && !this.destroyed) this.#credit(bytes)
  }
}
