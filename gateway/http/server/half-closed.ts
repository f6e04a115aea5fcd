import type { Socket } from 'node:net'

/** How long a client that has closed its half is waited for, unless it takes something of an answer in that time. */
const HALF_CLOSED_MS = 500

/**
 * A client that has gone and one that has only said all it will say look alike, until something is sent: one that has
 * gone answers with a reset.
 */
export function awaitHalfClosed(socket: Socket): void {
  const written = socket.bytesWritten
  const timer = setTimeout(() => {
    // What waits in our own queue is taken piece by piece, unseen; who takes nothing of it has its silence.
    if (socket.writableLength === 0 && socket.bytesWritten === written) socket.destroy()
  }, HALF_CLOSED_MS)
  socket.once('close', () => clearTimeout(timer))
}
