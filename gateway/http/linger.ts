import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** Longest silence of a client whose rest is waited for, and longest wait in all. */
const LINGER_IDLE_MS = 2000
const LINGER_TOTAL_MS = 10_000
/** What is thrown away at most. */
const LINGER_BYTES = 64 * 1024 * 1024

/**
 * Closes the connection after the answer in a way that lets the client read it: a plain close with bytes unread makes
 * the kernel send a reset, which can destroy the answer on its way (RFC 9112 section 9.6). So our half is closed, and
 * what still comes is thrown away, for a while and within a bound. Most clients read only when they have sent all.
 *
 * To be called before the answer ends; the answer must carry `Connection: close`.
 */
export function lingerAfterAnswer(req: IncomingMessage): void {
  const socket = req.socket
  const destroySoon = socket.destroySoon.bind(socket)
  // Node calls it when the last byte of the last answer has been handed over.
  socket.destroySoon = () => {
    socket.destroySoon = destroySoon
    if (req.complete) destroySoon()
    else discardRest(req)
  }
}

function discardRest(req: IncomingMessage): void {
  const socket = req.socket
  const before = socket.bytesRead
  const bound = () => {
    if (socket.bytesRead - before > LINGER_BYTES) socket.destroy()
  }
  const total = setTimeout(() => socket.destroy(), LINGER_TOTAL_MS)
  const idle = setTimeout(() => socket.destroy(), LINGER_IDLE_MS)
  req.unpipe()
  // Whoever was sending it on holds it back when told that nobody wants it.
  req.on('pause', () => process.nextTick(() => req.resume()))
  req.on('data', () => {
    idle.refresh()
    bound()
  })
  socket.once('end', () => socket.destroy())
  socket.once('close', () => {
    clearTimeout(total)
    clearTimeout(idle)
  })
  socket.end()
  req.resume()
  socket.resume()
}

/** Ends the connection so that the client cannot take what it has for a whole answer, whatever frames the answer. */
export function breakOff(socket: Socket): void {
  socket.resetAndDestroy()
}
