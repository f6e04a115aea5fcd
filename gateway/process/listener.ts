import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isTrusted } from '../http/rules/client-address.ts'
import type { ClientTimeouts } from '../http/server/connection-deadline.ts'
import type { Handler } from '../http/server/handler.ts'
import { Connections } from '../http/server/http-server.ts'
import type { RequestFault } from '../http/server/request-fault.ts'
import { handle, handleUnreadable, interrupt } from '../pipeline.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { connectionRoom } from './open-files.ts'

/** At most one log line about abandoned requests in this time. */
const LOG_ABANDONED_EVERY_MS = 1000

/**
 * The client connections of a thread. Every request ends in the pipeline, also one that is malformed or incomplete, so that
 * every response has its headers, its audit pair and its metric.
 */
export function connectionsOf(gateway: Gateway): Connections<Exchange> {
  const { clock, steadyClock, settings } = gateway
  const { trustedProxies } = settings
  return new Connections({
    handler: handlerOf(gateway),
    timeouts: clientTimeoutsOf(gateway),
    clock,
    steadyClock,
    maxConnections: connectionRoom(settings),
    handshakeMs: settings.timeouts.handshakeMs,
    isProxy: (address) => trustedProxies !== undefined && isTrusted(address, trustedProxies),
  })
}

function handlerOf(gateway: Gateway): Handler<Exchange> {
  return {
    begin: (arrival, fault) => handle(gateway, arrival, fault && refusalOf(fault)),
    unreadable: (arrival, fault) => handleUnreadable(gateway, arrival, refusalOf(fault)),
    interrupt: (exchange, fault) => interrupt(gateway, exchange, refusalOf(fault)),
    abandoned: abandonedReporter(gateway),
  }
}

/**
 * Reports pipelined requests whose client disconnected before the gateway began them. They have no audit records: the metric
 * counts all of them, the log names some of the clients.
 */
function abandonedReporter({ log, metrics, steadyClock }: Gateway): (ip: string, requests: number) => void {
  let loggedSteadyMs = Number.NEGATIVE_INFINITY
  return (ip, requests) => {
    metrics.abandoned(requests)
    const nowMs = steadyClock()
    if (nowMs - loggedSteadyMs < LOG_ABANDONED_EVERY_MS) return
    loggedSteadyMs = nowMs
    log.info({ ip, requests }, 'a client went away before its requests could be begun')
  }
}

function refusalOf({ code, cause }: RequestFault): Refusal {
  return refusal(code, { cause })
}

function clientTimeoutsOf({ settings: { timeouts } }: Gateway): ClientTimeouts {
  const { requestHeadersMs, requestMs = Number.POSITIVE_INFINITY, keepAliveMs, bodyIdleMs } = timeouts
  return {
    headersMs: Math.min(requestHeadersMs, requestMs),
    requestMs,
    bodyPace: { graceMs: timeouts.bodyGraceMs, minBytesPerSecond: timeouts.minBodyBytesPerSecond },
    keepAliveMs,
    idleMs: bodyIdleMs,
  }
}
