import type { Socket } from 'node:net'
import type { ClientResponse } from './client-response.ts'

/** Bounds after the last response: silence of the client, total time, bytes read. */
const IDLE_MS = 2000
const TOTAL_MS = 10_000
const MAX_BYTES = 64 * 1024 * 1024

/**
 * The lingering close after the last response (RFC 9112 section 9.6). A close with unread bytes sends a
 * reset, which can destroy the response on its way. So only our half closes, and what comes is thrown away
 * for a while.
 */
export class Lingering {
  readonly #socket: Socket
  readonly #endMs: number
  readonly #fromBytes: number
  deadlineMs: number

  constructor(socket: Socket, clientEnded: boolean, nowMs: number) {
    this.#socket = socket
    this.#endMs = nowMs + TOTAL_MS
    this.#fromBytes = socket.bytesRead
    this.deadlineMs = nowMs + IDLE_MS
    if (clientEnded) close(socket)
    else {
      socket.end()
      socket.resume()
    }
  }

  throwAway(nowMs: number): void {
    this.deadlineMs = Math.min(nowMs + IDLE_MS, this.#endMs)
    if (this.#socket.bytesRead - this.#fromBytes > MAX_BYTES) this.#socket.destroy()
  }

  /** Closes, unless the client still takes the last response. */
  timeUp(nowMs: number): void {
    if (this.#socket.writableLength === 0) {
      this.#socket.destroy()
      return
    }
    // The client has sent for too long: from now on it can only take its response.
    if (nowMs >= this.#endMs) this.#socket.pause()
    this.deadlineMs = nowMs + IDLE_MS
  }
}

/** Closes at once if the system has the whole response; TLS needs a half-close first. */
function close(socket: Socket): void {
  if (socket.writableLength === 0 && !('encrypted' in socket)) socket.destroy()
  else socket.destroySoon()
}

const LOOK_MS = 500
/** A client counts as gone after so many looks (10 s) without progress of a begun response. */
const SILENT_LOOKS = 20

/**
 * Finds out whether a client that has closed its half still waits: a client that is gone answers any byte with
 * a reset. Sends 100 (Continue), which clients ignore (RFC 9110 section 15.2), after 0.5 s, 1 s, 2 s, 4 s and
 * so on, until the response begins.
 * @param responseOf returns undefined between two requests
 */
export function watchHalfClosed(
  socket: Socket,
  responseOf: () => Pick<ClientResponse, 'probe' | 'headersSent'> | undefined,
): void {
  let looks = 0
  let silentLooks = 0
  let written = socket.bytesWritten
  const timer = setInterval(() => {
    const response = responseOf()
    looks += 1
    const isPowerOfTwo = (looks & (looks - 1)) === 0
    if (isPowerOfTwo && response?.headersSent === false) response.probe()
    const isSilent = response?.headersSent === true && socket.writableLength === 0
    silentLooks = isSilent && socket.bytesWritten === written ? silentLooks + 1 : 0
    written = socket.bytesWritten
    if (silentLooks === SILENT_LOOKS) socket.destroy()
  }, LOOK_MS)
  socket.once('close', () => clearInterval(timer))
}
