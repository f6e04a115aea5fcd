import type { Server } from 'node:net'

/** Turns of the event loop without a new connection: the system had none at the last look. */
const QUIET_TURNS = 3
/** New ones that keep coming must not keep a listener open. */
const LONGEST_MS = 500

/**
 * Lets the server accept the connections that the system has already accepted for it; when a listener closes, the
 * system resets those that are left. Resolves in the turn in which there was none.
 */
export function acceptQueued(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const endMs = performance.now() + LONGEST_MS
  let quietTurns = 0
  const accepted = () => {
    quietTurns = 0
  }
  const turn = () => {
    if (quietTurns < QUIET_TURNS && performance.now() < endMs) {
      quietTurns += 1
      setImmediate(turn)
      return
    }
    server.off('connection', accepted)
    resolve()
  }
  server.on('connection', accepted)
  // Node accepts one connection, or a few, in each turn.
  setImmediate(turn)
  return promise
}
