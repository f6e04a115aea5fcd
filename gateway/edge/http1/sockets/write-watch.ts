import type { Socket } from 'node:net'

const CHECK_MS = 1000
const NEVER = Number.POSITIVE_INFINITY

/** Watches whether a client takes its response, from the moment when its socket accepts no more. */
export class WriteWatch {
  readonly #socket: Socket
  readonly #steadyClock: () => number
  #idleMs = 0
  /** The value of `takenBytes` at its last change, and the time of the change. */
  #takenBytes = 0
  #sinceMs = 0
  /** Infinite while nothing is watched. */
  #nextCheckMs = NEVER

  constructor(socket: Socket, steadyClock: () => number) {
    this.#socket = socket
    this.#steadyClock = steadyClock
  }

  /** Does nothing when it watches already with the same `idleMs`. */
  begin(idleMs: number): void {
    if (this.#nextCheckMs !== NEVER && this.#idleMs === idleMs) return
    const nowMs = this.#steadyClock()
    this.#idleMs = idleMs
    this.#takenBytes = takenBytes(this.#socket)
    this.#sinceMs = nowMs
    this.#nextCheckMs = nowMs + Math.min(CHECK_MS, idleMs)
  }

  beginUnlessBegun(idleMs: number): void {
    if (this.#nextCheckMs === NEVER) this.begin(idleMs)
  }

  /** True once when the client has taken nothing for `idleMs`; at most one second late. */
  isStalled(nowMs: number): boolean {
    if (nowMs < this.#nextCheckMs) return false
    if (this.#socket.writableLength === 0) {
      this.#nextCheckMs = NEVER
      return false
    }
    const taken = takenBytes(this.#socket)
    if (taken !== this.#takenBytes) {
      this.#takenBytes = taken
      this.#sinceMs = nowMs
    }
    const endMs = this.#sinceMs + this.#idleMs
    const isStalled = nowMs >= endMs
    this.#nextCheckMs = isStalled ? NEVER : Math.min(nowMs + CHECK_MS, endMs)
    return isStalled
  }
}

/** Counts of libuv, an undocumented part of Node's sockets. With TLS, `_parent` has them. */
interface Counts {
  readonly bytesWritten?: number
  /** Bytes that the system has not taken. */
  readonly writeQueueSize?: number
  readonly _parent?: Counts
}

/** Bytes that the system has taken. Node's own numbers change only when a whole write is done. */
export function takenBytes(socket: Socket): number {
  const handle = (socket as unknown as { readonly _handle?: Counts | null })._handle
  const { bytesWritten, writeQueueSize } = handle?._parent ?? handle ?? {}
  if (bytesWritten === undefined || writeQueueSize === undefined)
    return socket.bytesWritten - socket.writableLength
  return bytesWritten - writeQueueSize
}
