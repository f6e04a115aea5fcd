import type { Socket } from 'node:net'

/** How often a connection that takes no more is looked at. */
const LOOK_MS = 1000

/** Whether a client takes what has been written for it: begun when its connection has taken all it can for now. */
export class Unread {
  readonly #socket: Socket
  readonly #idleMs: number
  /** Bytes that had left our own queue when that was last seen to change, and the time of it. */
  #takenBytes: number
  #sinceMs: number
  #lookMs: number

  /** @param idleMs after which a client that takes nothing is given up. */
  constructor(socket: Socket, idleMs: number, nowMs: number) {
    this.#socket = socket
    this.#idleMs = idleMs
    this.#takenBytes = takenBytes(socket)
    this.#sinceMs = nowMs
    this.#lookMs = nowMs + Math.min(LOOK_MS, idleMs)
  }

  /** `stalled` is never early, and at most as late as the pause between two looks. */
  look(nowMs: number): 'unknown' | 'all taken' | 'stalled' {
    if (nowMs < this.#lookMs) return 'unknown'
    if (this.#socket.writableLength === 0) return 'all taken'
    const taken = takenBytes(this.#socket)
    if (taken !== this.#takenBytes) {
      this.#takenBytes = taken
      this.#sinceMs = nowMs
    } else if (nowMs >= this.#sinceMs + this.#idleMs) return 'stalled'
    this.#lookMs = Math.min(nowMs + LOOK_MS, this.#sinceMs + this.#idleMs)
    return 'unknown'
  }
}

function takenBytes(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength
}
