import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

const LINGER_MS = 1000
const LINGER_BYTES = 256 * 1024

/**
 * Closes the connection after the answer in a way that lets the client read it: a plain close with bytes unread makes
 * the kernel send a reset, which can destroy the answer on its way (RFC 9112 section 9.6). So our half is closed, and
 * what still comes is thrown away, for a while and within a bound.
 */
export function lingerAfterAnswer(req: IncomingMessage): void {
  const socket = req.socket
  const destroySoon = socket.destroySoon.bind(socket)
  discardBody(req)
  socket.destroySoon = () => {
    if (req.complete) return destroySoon()
    socket.end()
    socket.resume()
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    timer.unref()
    socket.once('end', destroySoon)
    socket.once('close', () => clearTimeout(timer))
  }
}

function discardBody(req: IncomingMessage): void {
  let discarded = 0
  req.on('data', (chunk: Buffer) => {
    discarded += chunk.length
    if (discarded > LINGER_BYTES) req.socket.destroy()
  })
  req.resume()
}

/** Ends the connection so that the client cannot take what it has for a whole answer, whatever frames the answer. */
export function breakOff(socket: Socket): void {
  socket.resetAndDestroy()
}
