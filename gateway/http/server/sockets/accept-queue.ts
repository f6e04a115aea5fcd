import type { Server } from 'node:net'

/** After so many event loop turns without a new connection the system has none left. */
const QUIET_TURNS = 3
/** A steady flow of new connections must not keep the listener open, nor a busy machine have it closed without a look. */
const LONGEST_MS = 500
const LEAST_TURNS = 100

/**
 * Accepts the connections that already wait in the system's queue, which resets them when the listener closes. Resolves
 * when none is left.
 */
export function acceptQueued(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const endMs = performance.now() + LONGEST_MS
  let turns = 0
  let quietTurns = 0
  const accepted = () => {
    quietTurns = 0
  }
  const turn = () => {
    if (quietTurns < QUIET_TURNS && (turns < LEAST_TURNS || performance.now() < endMs)) {
      turns += 1
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
