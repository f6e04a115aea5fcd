import { responseTo } from '../audit/records.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { record } from './record.ts'

/**
 * Ends an exchange, exactly once, whatever happened: API_RESPONSE, metrics, in-flight. It runs before the last byte of
 * an answer is handed to the socket, so that no answer a client has seen is missing from the trail.
 *
 * @param statusCode what the exchange came to: the answer's status; 499 when the client went away; 408, 502 or 504 when
 * an answer that had begun was broken off.
 */
export function close(gateway: Gateway, exchange: Exchange, statusCode: number): void {
  if (exchange.closed) return
  exchange.closed = true
  gateway.load.inFlight.delete(exchange)
  const durationMs = gateway.steadyClock() - exchange.startedSteadyMs
  if (exchange.requestLine === undefined) record(gateway, exchange)
  // Without its first half a pair would only look like damage.
  if (exchange.requestLine !== undefined) {
    gateway.trail.settle(responseTo(exchange.requestLine, statusCode, durationMs))
  }
  gateway.metrics.closed(exchange, statusCode, durationMs / 1000)
}
