import type { Socket } from 'node:net'
import type { ClientResponse } from './client-response.ts'

/** When a half-closed client is first asked whether it is still there; each next time is twice as far away. */
const FIRST_PROBE_MS = 500

/**
 * Finds out whether a client that has closed its half still waits for its response. The system says the same of one that is
 * gone, which replies with a reset to whatever is sent. So until its response begins, the client is sent 100 (Continue) now and
 * then, which a client of HTTP/1.1 ignores (RFC 9110 section 15.2). One of HTTP/1.0 cannot be asked.
 *
 * @param responseOf gives the response under way; undefined between two requests
 */
export function probeHalfClosed(
  socket: Socket,
  responseOf: () => Pick<ClientResponse, 'probe'> | undefined,
): void {
  let afterMs = FIRST_PROBE_MS
  const probe = () => {
    responseOf()?.probe()
    afterMs *= 2
    timer = setTimeout(probe, afterMs)
  }
  let timer = setTimeout(probe, afterMs)
  socket.once('close', () => clearTimeout(timer))
}
