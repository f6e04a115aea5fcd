import { setTimeout as delay } from 'node:timers/promises'
import type { HttpServer } from '../edge/http1/http-server.ts'
import type { InForce, Load } from '../gateway.ts'
import { refusal } from '../refusals.ts'
import { giveUp } from '../stages/response/refuse.ts'

const SWEEP_MS = 50
/** Idle time before a connection is closed: a next request may be on its way. */
const QUIET_MS = 100
/** Time for the last refusals to be recorded and read. */
export const LAST_REFUSALS_MS = 500
/** Longest wait for a receiver of spans. */
export const MAX_SPANS_MS = 3000

export interface Stop {
  readonly reason: string
  /** How long requests are still served, so that load balancers can see that the gateway is not ready. */
  readonly graceMs: number
  /** Ends grace and deadline at once when it resolves. */
  readonly hurry: Promise<void>
}

interface Draining {
  readonly listeners: readonly HttpServer[]
  /** From now on no connection is accepted. */
  graceOver(): void
  /** Awaited after the last request, before the parts are closed. */
  beforeClose?(): Promise<void> | undefined
}

/**
 * Stops the gateway. Until the grace ends it is not ready but serves requests, and closes each connection after its next
 * response. `timeouts.drainMs` later, unfinished requests are refused, or broken off if their response has begun.
 */
export async function drain(
  inForce: InForce,
  { reason, graceMs, hurry }: Stop,
  { listeners, graceOver, beforeClose }: Draining,
): Promise<void> {
  const { load, log } = inForce.gateway
  load.phase = 'draining'
  log.info({ inFlight: load.inFlight.size, reason, graceMs }, 'draining')
  if (graceMs > 0) await Promise.race([delay(graceMs, undefined, { ref: false }), hurry])
  // Edits of the configuration take effect until the grace ends.
  graceOver()
  const closed = Promise.all(listeners.map((listener) => listener.close()))
  const sweep = setInterval(() => closeIdle(listeners), SWEEP_MS)
  const { steadyClock, settings, tracer } = inForce.gateway
  const endMs = steadyClock() + settings.timeouts.drainMs
  const deadline = setTimeout(() => breakOffRest(inForce, listeners), settings.timeouts.drainMs)
  const orphansEnd = setTimeout(endOrphans, settings.timeouts.drainMs, load)
  void hurry.then(() => breakOffRest(inForce, listeners))
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
  await beforeClose?.()
  await closeParts(inForce, reason)
  clearTimeout(orphansEnd)
  const restMs = Math.max(LAST_REFUSALS_MS, endMs - steadyClock())
  await tracer?.close(Math.min(restMs, MAX_SPANS_MS), hurry)
}

export async function closeParts({ gateway }: InForce, reason: string): Promise<void> {
  gateway.revocations.maintain()
  gateway.acceptedWebhooks.maintain()
  gateway.acceptedSignatures.maintain()
  gateway.deliveries.maintain()
  if (!gateway.revocations.isSafe) gateway.log.error('the end of a session could not be written: it is lost')
  gateway.limiter.close()
  await gateway.upstreams.close()
  gateway.idempotency?.close()
  await gateway.trail.end(reason)
}

/** Closes idle connections after this turn of the event loop has read the sockets: a connection with a new request is then busy. */
function closeIdle(listeners: readonly HttpServer[]): void {
  setImmediate(() => {
    for (const listener of listeners) listener.closeIdleConnections(QUIET_MS)
  })
}

/** Ends forwardings that go on without their clients. The upstreams can close only afterwards. */
export function endOrphans({ orphans }: Pick<Load, 'orphans'>): void {
  for (const orphan of orphans) orphan.abort()
}

export function breakOff({ gateway }: InForce): void {
  const { load, log } = gateway
  load.phase = 'over'
  log.warn(
    { inFlight: load.inFlight.size, tunnels: load.tunnels.taken },
    'open requests and tunnels are ended: the drain deadline has come, or a signal ended the wait',
  )
  load.inFlight.visitAll((exchange) => giveUp(gateway, exchange, refusal('draining')))
  load.tunnels.endAll('draining')
  endOrphans(load)
}

function breakOffRest(inForce: InForce, listeners: readonly HttpServer[]): void {
  breakOff(inForce)
  // Refusals wait for their audit records, and clients must still read them.
  setTimeout(() => {
    for (const listener of listeners) listener.closeAllConnections()
  }, LAST_REFUSALS_MS)
}
