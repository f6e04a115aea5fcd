import type { Socket } from 'node:net'

/** How long a half-closed client may take nothing of its response. */
const HALF_CLOSED_MS = 500

/**
 * Closes a half-closed connection after a while, unless the client takes something of its response. A client that is gone
 * and one that has only finished sending look alike until we send something, to which the first replies with a reset.
 */
export function awaitHalfClosed(socket: Socket): void {
  const written = socket.bytesWritten
  const timer = setTimeout(() => {
    // With bytes in our own queue, the timeout for stalled writes decides.
    if (socket.writableLength === 0 && socket.bytesWritten === written) socket.destroy()
  }, HALF_CLOSED_MS)
  socket.once('close', () => clearTimeout(timer))
}
