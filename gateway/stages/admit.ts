import { allowOf } from '../edge/rules/path-table.ts'
import { isValidHost } from '../edge/rules/request-headers.ts'
import { readTarget, type Target } from '../edge/rules/request-target.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { NO_TUNNEL_FREE } from './forwarding/tunnel.ts'
import { refusalOfNames } from './screening/check-leniency.ts'

const MAX_TARGET_LENGTH = 8192
/** Target `*` of OPTIONS (RFC 9110 section 9.3.7). No route has this path, so the request is not forwarded. */
const WHOLE_SERVER: Target = { path: '*', query: '', authority: undefined }

const DRAINING = refusal('draining', { headers: ['Retry-After', '1'] })
const OVERLOADED = refusal('overloaded', { headers: ['Retry-After', '1'] })
const AUDIT_UNAVAILABLE = refusal('audit_unavailable', { headers: ['Retry-After', '5'] })
const TARGET_TOO_LONG = refusal('target_too_long')
const INVALID_HOST = refusal('invalid_host')
const LOOP_DETECTED = refusal('loop_detected', {
  cause: 'the upstream, or what it forwards to, is this gateway',
})
/** RFC 6455 section 4.2.2 and RFC 9110 section 15.5.22. */
const WEBSOCKET_VERSION = refusal('websocket_version', {
  headers: ['Connection', 'Upgrade', 'Upgrade', 'websocket', 'Sec-WebSocket-Version', '13'],
})
export const METHOD_UNKNOWN = refusal('method_unknown')
const EXPECTATION_FAILED = refusal('expectation_failed')
/** CONNECT and TRACE: no route allows them. RFC 9110 section 10.2.1 requires Allow. */
const METHOD_NOT_ALLOWED = refusal('method_not_allowed', {
  headers: ['Allow', allowOf(undefined)],
})

export function admit(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  return (
    readTargetAndHost(gateway, exchange) ??
    checkLoad(gateway, exchange) ??
    checkMethodAndExpectation(gateway, exchange)
  )
}

/** @returns a text that says what is wrong with the target; undefined when it is too long */
export function readPath(gateway: Gateway, exchange: Exchange): Target | string | undefined {
  const raw = exchange.req.target
  const isWholeServer = raw === '*' && exchange.method === 'OPTIONS'
  const target = isWholeServer
    ? WHOLE_SERVER
    : raw.length > MAX_TARGET_LENGTH
      ? undefined
      : readTarget(raw, gateway.settings.leniency)
  if (typeof target === 'object') {
    exchange.path = target.path
    exchange.query = target.query
  }
  return target
}

function readTargetAndHost(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  if (exchange.method === 'CONNECT') return METHOD_NOT_ALLOWED
  const target = readPath(gateway, exchange)
  const { fault, oddNames } = exchange.headers
  if (fault !== undefined) return refusal(fault.code, { detail: fault.detail })
  const oddName = oddNames && refusalOfNames(gateway.settings, oddNames)
  if (oddName !== undefined) return oddName
  if (target === undefined) return TARGET_TOO_LONG
  if (typeof target === 'string')
    return refusal('invalid_target', { detail: target, cause: causeOf(exchange.req.target) })
  const { host, hasValidHost } = exchange.headers
  if (host === undefined || !hasValidHost) return INVALID_HOST
  if (target.authority !== undefined && !isValidHost(target.authority)) return INVALID_HOST
  exchange.host = target.authority ?? host
  return undefined
}

/** Names a setting that could let the target through. */
function causeOf(target: string): string | undefined {
  const [path = ''] = target.split('?')
  if (/%2f/i.test(path)) return 'encodedSlashes of a route can let %2F through'
  return path.includes(';') ? 'pathParameters of a route can let ";" through' : undefined
}

function checkLoad(gateway: Gateway, { upgrade, headers }: Exchange): Refusal | undefined {
  const { load, trail, loopMark } = gateway
  // A loop would go on until every permit is taken.
  if (headers.loop?.includes(loopMark) === true) return LOOP_DETECTED
  if (load.phase === 'over') return DRAINING
  if (load.permits.areExhausted) return OVERLOADED
  if (upgrade !== undefined && load.tunnels.areExhausted) return NO_TUNNEL_FREE
  if (!trail.recheck()) return AUDIT_UNAVAILABLE
  return undefined
}

function checkMethodAndExpectation(
  { routes }: Gateway,
  { method, upgrade, headers: { expect } }: Exchange,
): Refusal | undefined {
  if (upgrade === 'other version') return WEBSOCKET_VERSION
  if (!routes.knows(method)) return METHOD_UNKNOWN
  if (method === 'TRACE') return METHOD_NOT_ALLOWED
  // RFC 9110 section 10.1.1. A later stage sends 100 (Continue).
  return expect === undefined || expect.toLowerCase() === '100-continue' ? undefined : EXPECTATION_FAILED
}
