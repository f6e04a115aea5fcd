import type { ConnectionDeadline } from '../http1/connection-deadline.ts'
import { IncomingBody } from '../http1/incoming-body.ts'
import { DEFAULT_WINDOW } from './frames.ts'

const HIGH_WATER_BYTES = 32 * 1024
/** While the body flows, the client gets credit in portions of at least this size. */
const CREDIT_BYTES = DEFAULT_WINDOW >> 1
/** A longer piece is passed on by itself: copying would cost more. */
const MAX_JOINED_BYTES = 4096

/** A body of HTTP/2. While nobody reads it, the client gets no credit, and its deadline waits. */
export class StreamBody extends IncomingBody {
  readonly #credit: (bytes: number) => void
  readonly #joining: StreamBody[]
  /** A short piece that waits for others of the same read. */
  #first: Buffer | undefined = undefined
  /** Bytes received, and not given back to the client's window. */
  #uncredited = 0

  constructor(deadline: ConnectionDeadline, credit: (bytes: number) => void, joining: StreamBody[]) {
    super(deadline, HIGH_WATER_BYTES)
    this.#credit = credit
    this.#joining = joining
  }

  override _read(): void {
    if (!this.deadline.isBodyHeldBack) return
    this.deadline.resumeBody()
    this.#giveBack()
  }

  receive(piece: Buffer, isLast: boolean): void {
    if (this.destroyed) return
    this.#uncredited += piece.length
    if (!this.takes(piece.length)) return
    this.#holdBackUnless(this.#keep(piece, isLast))
  }

  #holdBackUnless(takesMore: boolean): void {
    if (!takesMore) {
      if (!this.deadline.isBodyHeldBack) this.deadline.holdBodyBack()
    } else if (this.#uncredited >= CREDIT_BYTES) this.#giveBack()
  }

  /** Copies a piece that waits for a reader, since it would keep its whole read buffer in memory. The last is not copied. */
  #keep(piece: Buffer, isLast: boolean): boolean {
    const isFlowing = this.readableFlowing === true && this.readableLength === 0
    const first = this.#first
    if (first !== undefined) {
      this.#first = undefined
      this.gather(first, 0, first.length)
    }
    if (this.isGathering && isFlowing && piece.length > MAX_JOINED_BYTES) return this.enter(piece)
    if (this.readableLength > 0 || this.isGathering) return this.gather(piece, 0, piece.length)
    if (isFlowing && !isLast && piece.length <= MAX_JOINED_BYTES) {
      this.#first = piece
      this.#joining.push(this)
      return true
    }
    if (isFlowing || isLast) return this.push(piece)
    const copy = Buffer.allocUnsafeSlow(piece.length)
    piece.copy(copy)
    return this.push(copy)
  }

  /** Called at the end of each read of the socket. */
  passJoined(): void {
    const first = this.#first
    this.#first = undefined
    if (!this.destroyed) this.#holdBackUnless(first === undefined ? this.pushGathered() : this.enter(first))
  }

  complete(): void {
    this.passJoined()
    this.#uncredited = 0
    if (!this.isExceeded) this.enterEnd()
  }

  #giveBack(): void {
    const bytes = this.#uncredited
    this.#uncredited = 0
    if (bytes > 0 && !this.destroyed) this.#credit(bytes)
  }
}
