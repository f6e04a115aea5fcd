import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { isTrusted } from '../http/rules/client-address.ts'
import type { ClientTimeouts, Handler } from '../http/server/handler.ts'
import { Connections } from '../http/server/http-server.ts'
import type { RequestFault } from '../http/server/request-fault.ts'
import { handle, handleUnreadable, interrupt } from '../pipeline.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { Abandonments } from './abandonments.ts'
import { connectionRoom } from './open-files.ts'

/**
 * What comes by the public listeners of a thread: every way in which a request comes, or fails to, ends in the pipeline,
 * so that every answer has its headers, its audit pair and its metric.
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
  const abandonments = new Abandonments(gateway)
  return {
    begin: (arrival, fault) => handle(gateway, arrival, fault && refusalOf(fault)),
    unreadable: (arrival, fault) => handleUnreadable(gateway, arrival, refusalOf(fault)),
    interrupt: (exchange, fault) => interrupt(gateway, exchange, refusalOf(fault)),
    abandoned: (peer, requests) => abandonments.note(peer, requests),
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
