import type { ServerResponse } from 'node:http'
import type { Commit } from '../audit/commit.ts'
import { responseTo } from '../audit/records.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { recordAtEnd } from './record.ts'

/**
 * Ends an exchange, exactly once, whatever happened: API_RESPONSE, metrics, in-flight. It runs before the last byte of
 * an answer is handed to the socket, so that no answer a client has seen is missing from the trail; where the trail has
 * to be committed (`synced`), what is written from now on is held back until it is.
 *
 * @param statusCode what the exchange came to: the answer's status; 499 when the client went away; 408, 502 or 504 when
 * an answer that had begun was broken off.
 */
export function close(gateway: Gateway, exchange: Exchange, statusCode: number): void {
  if (exchange.closed) return
  exchange.closed = true
  gateway.load.inFlight.delete(exchange)
  const durationMs = gateway.steadyClock() - exchange.startedSteadyMs
  if (exchange.requestLine === undefined) recordAtEnd(gateway, exchange)
  // Without its first half a pair would only look like damage.
  if (exchange.requestLine !== undefined) {
    const commit = gateway.trail.settle(responseTo(exchange.requestLine, statusCode, durationMs))
    if (commit !== undefined) holdBack(exchange, commit)
  }
  gateway.metrics.closed(exchange, statusCode, durationMs / 1000)
}

/** A commit that fails lets the answer go as well: what it tells of has happened, and is owed to the trail. */
function holdBack({ req, res, upgrade }: Exchange, commit: Commit): void {
  const { socket } = req
  if (!socket.writable) return
  if (upgrade === undefined) {
    const release = held(res)
    commit.whenDone(release)
    return
  }
  // What follows a 101 goes to the socket itself.
  socket.cork()
  commit.whenDone(() => socket.uncork())
}

/** Keeps what is written to the response, until the function that it returns is called. */
function held(res: ServerResponse): () => void {
  const calls: (() => void)[] = []
  const { write, end } = res
  res.write = (...args: unknown[]) => {
    calls.push(() => Reflect.apply(write, res, args))
    return true
  }
  res.end = (...args: unknown[]) => {
    calls.push(() => Reflect.apply(end, res, args))
    return res
  }
  return () => {
    res.write = write
    res.end = end
    for (const call of calls) call()
  }
}
