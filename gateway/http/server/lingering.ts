import type { Socket } from 'node:net'

/** Longest silence of a client whose rest is waited for after the last answer, longest wait in all, and most bytes. */
const IDLE_MS = 2000
const TOTAL_MS = 10_000
const MAX_BYTES = 64 * 1024 * 1024

/**
 * The end of a connection after its last answer: our half is closed, and what still comes is thrown away for a while. A
 * plain close with bytes unread makes the kernel send a reset, which can destroy the answer on its way (RFC 9112
 * section 9.6), and most clients read only when they have sent all.
 */
export class Lingering {
  readonly #socket: Socket
  readonly #endMs: number
  /** Bytes of the client that had come before. */
  readonly #fromBytes: number
  /** When it is to be asked again: see {@link timeUp}. */
  deadlineMs: number

  /** @param clientEnded there is nothing left to throw away */
  constructor(socket: Socket, clientEnded: boolean, nowMs: number) {
    this.#socket = socket
    this.#endMs = nowMs + TOTAL_MS
    this.#fromBytes = socket.bytesRead
    this.deadlineMs = nowMs + IDLE_MS
    if (clientEnded) socket.destroySoon()
    else {
      socket.end()
      socket.resume()
    }
  }

  /** Something came. */
  throwAway(nowMs: number): void {
    this.deadlineMs = Math.min(nowMs + IDLE_MS, this.#endMs)
    if (this.#socket.bytesRead - this.#fromBytes > MAX_BYTES) this.#socket.destroy()
  }

  /** A client that takes its time over the last answer is waited for as long as it takes something of it. */
  timeUp(nowMs: number): void {
    if (this.#socket.writableLength === 0) {
      this.#socket.destroy()
      return
    }
    // What it sends is no sign any more that it takes something: its silence decides.
    if (nowMs >= this.#endMs) this.#socket.pause()
    this.deadlineMs = nowMs + IDLE_MS
  }
}
