import { grpcStatusLines, grpcStatusOfRefusal, isGrpc } from '../../edge/rules/grpc.ts'
import { STATUS_CODES } from '../../edge/syntax/status-codes.ts'
import type { Exchange } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { Refusal } from '../../refusals.ts'
import { close } from '../close.ts'
import { recordAtEnd } from '../record.ts'
import { logRefusal } from './log-refusal.ts'
import { PAGE_POLICY, prefersHtml, refusalPage } from './refusal-page.ts'
import { signResponse } from './sign-response.ts'
import { linesOf, writeHead } from './write-response.ts'

/** Ends an exchange with a refusal, or with a 503 when the request cannot be recorded. */
export function refuse(gateway: Gateway, exchange: Exchange, refusal: Refusal): void {
  if (exchange.closed) return
  const final = exchange.requestLine === undefined ? (recordAtEnd(gateway, exchange) ?? refusal) : refusal
  exchange.refusalCode = final.code
  if (exchange.principal === undefined) exchange.claimedClient = final.client
  if (isGrpc(exchange.req)) {
    refuseCall(gateway, exchange, final)
    return
  }
  const { requestId } = exchange
  const { status, detail, code, violatedPolicies } = final
  const title = STATUS_CODES[status] ?? 'Refused'
  const isPage = prefersHtml(exchange.req.fields)
  // RFC 9457.
  const problem = {
    type: `urn:countersign:problem:${code}`,
    title,
    status,
    detail,
    code,
    requestId,
    'violated-policies': violatedPolicies,
  }
  const body = isPage ? refusalPage(final, title, requestId) : Buffer.from(JSON.stringify(problem))
  const contentLength = body.length
  const lines = `${isPage ? PAGE_LINES : PROBLEM_LINES}Content-Length: ${contentLength}\r\n${linesOf(final.headers)}`
  // The rest of an unread body would be parsed as the next request.
  if (final.closes || !exchange.req.complete || gateway.load.phase !== 'serving')
    exchange.res.keepAlive = false
  logRefusal(gateway, exchange, final)
  const unsigned = { lines, contentLength, dated: false }
  // A caller that has failed to prove itself must not make the gateway sign.
  const isProved = exchange.principal !== undefined || exchange.route?.auth.has('none') === true
  const head = isProved ? signResponse(gateway, exchange, { status, head: unsigned, body }) : unsigned
  close(gateway, exchange, status)
  writeHead(gateway, exchange, status, head)
  exchange.res.write(body)
  exchange.res.end()
}

/** A call of gRPC gets its status in the fields of a 200; trail and metrics have the status of the refusal. */
function refuseCall(gateway: Gateway, exchange: Exchange, refusal: Refusal): void {
  const { status, detail, headers } = refusal
  const grpcStatus = grpcStatusOfRefusal(status)
  exchange.grpcStatus = grpcStatus
  logRefusal(gateway, exchange, refusal)
  close(gateway, exchange, status)
  const lines = `${CALL_LINES}${grpcStatusLines(grpcStatus, detail)}${linesOf(headers)}`
  writeHead(gateway, exchange, 200, { lines, contentLength: undefined, dated: false })
  exchange.res.end()
}

const CALL_LINES = linesOf(['Content-Type', 'application/grpc'])
const PROBLEM_LINES = linesOf(['Content-Type', 'application/problem+json'])
const PAGE_LINES = linesOf([
  'Content-Type',
  'text/html; charset=utf-8',
  'Content-Security-Policy',
  PAGE_POLICY,
])

/** Cancels the forwarding and refuses. Breaks off a response that has begun: no client may take it for complete. */
export function giveUp(gateway: Gateway, exchange: Exchange, refusal: Refusal): void {
  exchange.forwarding?.abort()
  if (exchange.closed) return
  if (!exchange.res.headersSent) {
    refuse(gateway, exchange, refusal)
    return
  }
  logRefusal(gateway, exchange, refusal)
  exchange.refusalCode = refusal.code
  const isCall = exchange.grpcStatus !== undefined
  const grpcStatus = grpcStatusOfRefusal(refusal.status)
  if (isCall) exchange.grpcStatus = grpcStatus
  close(gateway, exchange, refusal.status)
  // A client that reads nothing would not read the status either.
  if (isCall && refusal.code !== 'response_timeout')
    exchange.res.end(grpcStatusLines(grpcStatus, refusal.detail))
  else exchange.res.breakOff(refusal.status === 408)
}
