import { responseTo } from '../audit/audit-records.ts'
import type { Commit } from '../audit/commit/commit.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { recordAtEnd } from './record.ts'
import { releasePermit } from './take-permit.ts'

/**
 * Ends an exchange once, before the last byte of a response is written: every response that a client has seen is in the trail.
 * The status is 499 when the client disconnected; 408, 502 or 504 when a response that had begun was broken off.
 */
export function close(gateway: Gateway, exchange: Exchange, statusCode: number): void {
  if (exchange.closed) return
  exchange.closed = true
  gateway.load.inFlight.remove(exchange)
  if (exchange.permitHolder !== undefined) releasePermit(gateway, exchange, exchange.permitHolder)
  if (exchange.delivery !== undefined)
    gateway.deliveries.end(exchange.delivery, statusCode >= 200 && statusCode < 300)
  const durationMs = gateway.steadyClock() - exchange.startedSteadyMs
  if (exchange.requestLine === undefined) recordAtEnd(gateway, exchange)
  // API_RESPONSE without API_REQUEST would look like a damaged trail.
  if (exchange.requestLine !== undefined) {
    const record = responseTo(exchange.requestLine, statusCode, durationMs, exchange.grpcStatus)
    const commit = gateway.trail.settle(record)
    if (commit !== undefined || !gateway.trail.writable) holdBack(gateway, exchange, commit)
  }
  gateway.metrics.closed(exchange, statusCode, durationMs / 1000)
  if (exchange.trace !== undefined) gateway.tracer?.finish(exchange.trace, exchange, statusCode)
}

/** A crash would lose the record. The response waits until it is written, and is broken off when that takes too long. */
function holdBack({ trail }: Gateway, { req, res }: Exchange, commit: Commit | undefined): void {
  if (!req.socket.writable) return
  const release = res.hold()
  const whenKnown = (error: Error | undefined) => {
    if (error === undefined) release()
    else trail.whenPendingWritten((fault) => (fault === undefined ? release() : res.breakOff()))
  }
  if (commit === undefined) trail.whenPendingWritten((error) => setImmediate(whenKnown, error))
  else commit.whenDone(whenKnown)
}
