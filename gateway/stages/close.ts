import { responseTo } from '../audit/audit-records.ts'
import type { Commit } from '../audit/commit/commit.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import type { KeyedExchange } from '../idempotency/keyed-exchange.ts'
import { recordAtEnd, withSignature } from './record.ts'
import { releasePermit } from './take-permit.ts'

/** Ends an exchange once, before the last byte of a response, so every response that a client sees is in the trail. */
export function close(gateway: Gateway, exchange: Exchange, statusCode: number): void {
  if (exchange.closed) return
  exchange.closed = true
  gateway.load.inFlight.remove(exchange)
  if (exchange.permitHolder !== undefined) releasePermit(gateway, exchange, exchange.permitHolder)
  // If the forwarding goes on without its client, it reports the end of the webhook itself.
  if (exchange.delivery !== undefined && exchange.orphan === undefined) {
    // A client that leaves or does not read does not change what the service has responded.
    const status = (statusCode < 500 && exchange.forwarding?.status) || statusCode
    gateway.deliveries.end(exchange.delivery, status >= 200 && status < 300)
  }
  const unsettled = exchange.keyed?.settle(exchange.forwarding?.isSent === true)
  const durationMs = gateway.steadyClock() - exchange.startedSteadyMs
  if (exchange.requestLine === undefined) recordAtEnd(gateway, exchange)
  // API_RESPONSE without API_REQUEST would look like a damaged trail.
  if (exchange.requestLine !== undefined) {
    const { requestLine, grpcStatus, responseSignature } = exchange
    const line = responseTo(requestLine, statusCode, durationMs, grpcStatus, exchange)
    const commit = gateway.trail.settle(withSignature(gateway, line, undefined, responseSignature))
    if (commit !== undefined || unsettled !== undefined || !gateway.trail.writable)
      holdBack(gateway, exchange, commit, unsettled)
  }
  gateway.metrics.closed(exchange, statusCode, durationMs / 1000)
  if (exchange.trace !== undefined) gateway.tracer?.finish(exchange.trace, exchange, statusCode)
}

/** Holds the response until its record and the outcome of its idempotency key are written: a crash could lose them. */
function holdBack(
  { trail }: Gateway,
  { req, res }: Exchange,
  commit: Commit | undefined,
  unsettled: KeyedExchange | undefined,
): void {
  if (!req.socket.writable) return
  const releaseAll = res.hold()
  let awaited = unsettled === undefined ? 1 : 2
  const release = () => {
    awaited -= 1
    if (awaited === 0) releaseAll()
  }
  unsettled?.whenKnown((error) => (error === undefined ? release() : res.breakOff()))
  const whenKnown = (error: Error | undefined) => {
    if (error === undefined) release()
    else trail.whenPendingWritten((fault) => (fault === undefined ? release() : res.breakOff()))
  }
  if (commit === undefined) trail.whenPendingWritten((error) => setImmediate(whenKnown, error))
  else commit.whenDone(whenKnown)
}
