import type { Socket } from 'node:net'

/** So much is written without waiting for more of the turn: whoever writes must see in time that the client takes no more. */
const MAX_HELD_BYTES = 16 * 1024

/**
 * Writes frames to a connection. What is written in one turn of the loop goes to the socket as one piece: one system call and,
 * with TLS, one record for the responses of many streams. Copying costs less than `cork` with its lists.
 */
export class FrameWriter {
  readonly #socket: Socket
  readonly #onWritten: () => void
  #held: Buffer[] = []
  #heldBytes = 0

  /** @param onWritten called after each piece: the client may not have taken it */
  constructor(socket: Socket, onWritten: () => void) {
    this.#socket = socket
    this.#onWritten = onWritten
  }

  /** What the client has still to take. */
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
