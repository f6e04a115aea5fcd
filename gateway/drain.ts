import type { Gateway } from './gateway.ts'
import type { HttpServer } from './http/downstream/server.ts'
import { interrupt } from './pipeline.ts'
import { refusal } from './refusals.ts'

/** How often connections that have become idle are closed meanwhile. */
const SWEEP_MS = 50
/** How long what is said at the deadline may take to be recorded and read. */
const LAST_WORDS_MS = 500

export interface Stop {
  /** Goes into the AUDIT_STOP record. */
  readonly reason: string
  /** When it resolves, the deadline has come. */
  readonly hurry: Promise<void>
}

/**
 * Finishes what was admitted, admits nothing more, then closes the parts. What is not finished within
 * `timeouts.drainMs` is refused, or broken off if its answer has begun.
 */
export async function drain(
  gateway: Gateway,
  listeners: readonly HttpServer[],
  { reason, hurry }: Stop,
): Promise<void> {
  const { load, log, settings } = gateway
  load.draining = true
  log.info({ inFlight: load.inFlight.size, reason }, 'draining')
  const closed = Promise.all(listeners.map((listener) => listener.close()))
  const sweep = setInterval(() => {
    for (const listener of listeners) listener.closeIdleConnections()
  }, SWEEP_MS)
  const deadline = setTimeout(() => breakOffRest(gateway, listeners), settings.timeouts.drainMs)
  void hurry.then(() => breakOffRest(gateway, listeners))
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
  await closeParts(gateway, reason)
}

/** Closes everything that outlives a request, in the order in which nothing is lost. */
export async function closeParts(gateway: Gateway, reason: string): Promise<void> {
  gateway.limiter.close()
  await gateway.upstream.close()
  gateway.trail.close(reason)
}

function breakOffRest(gateway: Gateway, listeners: readonly HttpServer[]): void {
  const { load, log } = gateway
  log.warn({ inFlight: load.inFlight.size, tunnels: load.tunnels.size }, 'the drain deadline has come')
  load.inFlight.visitAll((exchange) => interrupt(gateway, exchange, refusal('draining')))
  for (const socket of load.tunnels) socket.destroy()
  // The refusals wait for their records, and clients for the refusals.
  setTimeout(() => {
    for (const listener of listeners) listener.closeAllConnections()
  }, LAST_WORDS_MS)
}
