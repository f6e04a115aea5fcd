import type { Readable } from 'node:stream'
import type { Route } from '../config/settings.ts'
import { bodyOf } from '../edge/bodies/buffered-body.ts'
import type { IncomingBody } from '../edge/http1/incoming-body.ts'
import { grpcTimeoutMs, isGrpc, UNKNOWN } from '../edge/rules/grpc.ts'
import { rewrittenPath } from '../edge/rules/policy/sending-policy.ts'
import { originForm } from '../edge/rules/request-target.ts'
import { filterRequestTrailers } from '../edge/rules/trailers.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { bodyTooLarge } from '../refusals.ts'
import { Forwarding } from './forwarding/forwarding.ts'
import { signForService } from './forwarding/sign-for-service.ts'
import { upstreamFields } from './forwarding/upstream-fields.ts'
import { publishKeys } from './response/publish-keys.ts'

export function forward(gateway: Gateway, exchange: Exchange): void {
  const { req, res, headers, route } = exchange
  if (route === undefined) throw new Error('an exchange without a route cannot be forwarded')
  if (route.jwks !== undefined) {
    publishKeys(gateway, exchange, route.jwks)
    return
  }
  // Only the next call can throw, and nothing has been sent yet.
  const { common, fields } = upstreamFields(gateway, exchange)
  // An HTTP/1.1 service cannot answer gRPC calls.
  const isCall = route.client.speaksHttp2 && isGrpc(req)
  // A call has this status until its response names another.
  if (isCall) exchange.grpcStatus = UNKNOWN
  const hasBody = headers.hasBody && (isCall || !isEndedEmpty(exchange))
  const target = targetOf(exchange)
  if (route.signedTarget !== undefined)
    signForService(gateway, exchange, { target, common, fields, hasBody, signedTarget: route.signedTarget })
  // A client of HTTP/1.0 gets no 100 (RFC 9110 section 10.1.1).
  const unread = hasBody && exchange.bufferedBody === undefined
  if (headers.expect !== undefined && unread && req.version !== '1.0') res.writeInterim(100, '')
  res.idleMs = route.idleTimeoutMs
  const forwarding = new Forwarding(gateway, exchange)
  let body = hasBody ? bufferedBodyOf(exchange) : null
  if (unread && req.body !== null) {
    body = req.body
    if (headers.contentLength === undefined && !isBounded(req.body, route, forwarding)) return
  }
  // Client and service of a gRPC call may pause as they like, within `idleMs`.
  if (isCall && body !== null) req.body?.endPace()
  const clientMs = isCall ? grpcTimeoutMs(req.fields) : undefined
  const isClients = clientMs !== undefined && (route.timeoutMs === undefined || clientMs < route.timeoutMs)
  forwarding.call = route.client.send(
    {
      method: exchange.method,
      target,
      namesTarget: route.sending?.namesTarget === true,
      common,
      fields,
      body,
      upgrade: exchange.upgrade,
      idleMs: route.idleTimeoutMs,
      totalMs: isClients ? clientMs : route.timeoutMs,
      isTotalOfClient: isClients,
      attempts: exchange.trace,
      isDuplex: isCall,
      acceptsTrailers: req.version === '2' && req.fields.some(({ lower }) => lower === 'te'),
      trailers:
        req.version === '2' ? () => filterRequestTrailers(req.trailers, route.sending?.removed) : undefined,
    },
    forwarding,
  )
  exchange.forwarding = forwarding
}

/** A stream if no length was announced, so that the body is sent in chunks. */
function bufferedBodyOf({ bufferedBody, headers }: Exchange): Readable | Buffer | null {
  if (bufferedBody === undefined) return null
  return bufferedBody.length === headers.contentLength ? bufferedBody : bodyOf(bufferedBody)
}

function targetOf({ path, query, route, req }: Exchange): string {
  const sending = route?.sending
  if (sending === undefined) return path + query
  if (sending.isRaw) return originForm(req.target)
  return (sending.rewrite === undefined ? path : rewrittenPath(sending.rewrite, path)) + query
}

/** True when an empty HTTP/2 frame or chunk ended the request. Trailers need a body. */
function isEndedEmpty({ req }: Exchange): boolean {
  return req.complete && req.body?.isEmpty === true && req.trailers.length === 0
}

/** @returns false when the client has got a refusal */
function isBounded(body: IncomingBody, { maxBodyBytes }: Route, forwarding: Forwarding): boolean {
  const give = () => forwarding.give(bodyTooLarge(maxBodyBytes))
  if (body.bound(maxBodyBytes, give)) return true
  give()
  return false
}
