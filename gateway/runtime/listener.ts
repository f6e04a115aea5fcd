import { readFileSync } from 'node:fs'
import type { Settings } from '../config/settings.ts'
import type { ClientTimeouts, HeadBounds } from '../edge/http1/connection-deadline.ts'
import type { Http2Protocol } from '../edge/http1/connection-terms.ts'
import { Connections } from '../edge/http1/connections.ts'
import type { Handler, RequestFault } from '../edge/http1/handler.ts'
import { isTrusted } from '../edge/rules/client-address.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway, InForce } from '../gateway.ts'
import { handle, handleUnreadable, interrupt } from '../pipeline.ts'
import { type Refusal, refusal } from '../refusals.ts'

const LOG_ABANDONED_EVERY_MS = 1000
/** A generous estimate of files that the process itself keeps open: logs, trail, journal, listeners, admin clients. */
const OWN_FILES = 256
const ASSUMED_FILES = 10_240
const LEAST_CONNECTIONS = 64

/** Every request ends in the pipeline, also a malformed one, so that every response has its headers, audit pair and metric. */
export function connectionsOf(inForce: InForce, http2?: Http2Protocol): Connections<Exchange> {
  const { clock, steadyClock, settings } = inForce.gateway
  return new Connections({
    handler: handlerOf(inForce),
    timeouts: clientTimeoutsOf(settings),
    head: headBoundsOf(settings),
    clock,
    steadyClock,
    http2,
    isPlainHttp2: settings.http2 === true,
    isLeaving: () => inForce.gateway.load.phase !== 'serving',
    maxConnections: connectionRoom(settings),
    handshakeMs: settings.timeouts.handshakeMs,
    isProxy: (address) => {
      const { trustedProxies } = inForce.gateway.settings
      return trustedProxies !== undefined && isTrusted(address, trustedProxies)
    },
  })
}

export function boundClients(connections: Connections<Exchange>, settings: Settings): void {
  connections.bound(connectionRoom(settings), clientTimeoutsOf(settings), headBoundsOf(settings))
}

/** A request keeps the gateway that is in force when it begins. To break one off, any will do: they share what that needs. */
function handlerOf(inForce: InForce): Handler<Exchange> {
  return {
    begin: (arrival, fault) => handle(inForce.gateway, arrival, fault && refusalOf(fault)),
    unreadable: (arrival, fault) => handleUnreadable(inForce.gateway, arrival, refusalOf(fault)),
    interrupt: (exchange, fault) => interrupt(inForce.gateway, exchange, refusalOf(fault)),
    abandoned: abandonedReporter(inForce.gateway),
  }
}

/** Reports pipelined requests whose client left before they were begun. They have no audit records. */
function abandonedReporter({ log, metrics, steadyClock }: Gateway): (ip: string, requests: number) => void {
  metrics.gateway_requests_abandoned_total.begin()
  let loggedSteadyMs = Number.NEGATIVE_INFINITY
  return (ip, requests) => {
    metrics.gateway_requests_abandoned_total.add(requests)
    const nowMs = steadyClock()
    if (nowMs - loggedSteadyMs < LOG_ABANDONED_EVERY_MS) return
    loggedSteadyMs = nowMs
    log.info({ ip, requests }, 'a client went away before its requests could be begun')
  }
}

function refusalOf({ code, cause }: RequestFault): Refusal {
  return refusal(code, code === 'overloaded' ? { cause, headers: ['Retry-After', '1'] } : { cause })
}

function headBoundsOf({ maxHeaderBytes, maxHeaderFields }: Settings): HeadBounds {
  return { maxBytes: maxHeaderBytes, maxFields: maxHeaderFields }
}

function clientTimeoutsOf({ timeouts }: Settings): ClientTimeouts {
  const { requestHeadersMs, requestMs = Number.POSITIVE_INFINITY, keepAliveMs, bodyIdleMs } = timeouts
  return {
    headersMs: Math.min(requestHeadersMs, requestMs),
    requestMs,
    bodyPace: { graceMs: timeouts.bodyGraceMs, minBytesPerSecond: timeouts.minBodyBytesPerSecond },
    keepAliveMs,
    idleMs: bodyIdleMs,
  }
}

/**
 * Client connections that may be open: the limit on open files, less those for upstreams (two for each exchange, one for each
 * tunnel) and for the process itself. Otherwise idle clients could use up the files that active ones need.
 */
export function connectionRoom(
  { maxInFlight, maxTunnels }: { readonly maxInFlight: number; readonly maxTunnels: number },
  files: number = openFiles(),
): number {
  const left = files - OWN_FILES - 2 * maxInFlight - maxTunnels
  return Math.floor(Math.max(left, files / 4, LEAST_CONNECTIONS))
}

function openFiles(): number {
  try {
    const soft = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? ASSUMED_FILES)
  } catch {
    return ASSUMED_FILES
  }
}
