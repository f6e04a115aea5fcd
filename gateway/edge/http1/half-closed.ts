import type { Socket } from 'node:net'
import type { ClientResponse } from './client-response.ts'

const LOOK_MS = 500
/** After so many looks at which nothing of a response that has begun was sent, its client counts as gone: 10 s. */
const SILENT_LOOKS = 20

/**
 * Finds out whether a client that has closed its half still waits for its response. The system says the same of one that is
 * gone, which replies with a reset to whatever is sent. So until its response begins, the client is sent 100 (Continue), which a
 * client of HTTP/1.1 ignores (RFC 9110 section 15.2): after half a second, and each next time after twice as long. In a response
 * that has begun only the response itself can be sent.
 *
 * @param responseOf gives the response under way; undefined between two requests
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
