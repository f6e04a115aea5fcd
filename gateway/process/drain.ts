import type { Gateway } from '../gateway.ts'
import type { HttpServer } from '../http/server/http-server.ts'
import { interrupt } from '../pipeline.ts'
import { refusal } from '../refusals.ts'

/** How often connections that have become idle are closed meanwhile. */
const SWEEP_MS = 50
/** A connection that was used so recently may have its next request on the way. */
const QUIET_MS = 100
/** How long what is said at the deadline may take to be recorded and read. */
const LAST_WORDS_MS = 500

export interface Stop {
  /** Goes into the AUDIT_STOP record. */
  readonly reason: string
  /** For so long everybody is still served as before, so that those who balance the load see that it is not ready. */
  readonly graceMs: number
  /** When it resolves, grace and deadline are over. */
  readonly hurry: Promise<void>
}

/** What drain closes, and what it tells. */
interface Draining {
  readonly listeners: readonly HttpServer[]
  /** From now on only what has been admitted is served. */
  graceOver(): void
}

/**
 * Is not ready from now on, but serves everybody until the grace is over, each connection to the end of its next response;
 * then closes the listeners, finishes what was admitted, and closes the parts. What is not finished within
 * `timeouts.drainMs` after the grace is refused, or broken off if its response has begun.
 */
export async function drain(
  gateway: Gateway,
  { reason, graceMs, hurry }: Stop,
  { listeners, graceOver }: Draining,
): Promise<void> {
  const { load, log, settings } = gateway
  load.phase = 'draining'
  log.info({ inFlight: load.inFlight.size, reason, graceMs }, 'draining')
  await passed(graceMs, hurry)
  graceOver()
  const closed = Promise.all(listeners.map((listener) => listener.close()))
  const sweep = setInterval(() => closeIdle(listeners), SWEEP_MS)
  const deadline = setTimeout(() => breakOffRest(gateway, listeners), settings.timeouts.drainMs)
  void hurry.then(() => breakOffRest(gateway, listeners))
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
  await closeParts(gateway, reason)
}

/** Resolves after that time, or before it when `hurry` does. */
export async function passed(ms: number, hurry: Promise<void>): Promise<void> {
  if (ms === 0) return
  const time = Promise.withResolvers<void>()
  const timer = setTimeout(time.resolve, ms)
  await Promise.race([time.promise, hurry])
  clearTimeout(timer)
}

/** Closes everything that outlives a request, in the order in which nothing is lost. */
export async function closeParts(gateway: Gateway, reason: string): Promise<void> {
  gateway.revocations.tend()
  gateway.deliveries.tend()
  if (!gateway.revocations.isSafe) gateway.log.error('the end of a session could not be written: it is lost')
  gateway.limiter.close()
  await gateway.upstream.close()
  gateway.trail.close(reason)
}

/** Behind the sockets in this turn of the loop: what the system has received by now is read before, and makes them busy. */
function closeIdle(listeners: readonly HttpServer[]): void {
  setImmediate(() => {
    for (const listener of listeners) listener.closeIdleConnections(QUIET_MS)
  })
}

function breakOffRest(gateway: Gateway, listeners: readonly HttpServer[]): void {
  const { load, log } = gateway
  load.phase = 'over'
  log.warn({ inFlight: load.inFlight.size, tunnels: load.tunnels.size }, 'the drain deadline has come')
  load.inFlight.visitAll((exchange) => interrupt(gateway, exchange, refusal('draining')))
  load.tunnels.endAll('draining')
  // The refusals wait for their records, and clients for the refusals.
  setTimeout(() => {
    for (const listener of listeners) listener.closeAllConnections()
  }, LAST_WORDS_MS)
}
