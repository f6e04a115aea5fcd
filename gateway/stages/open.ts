import type { ReceivedRequest } from '../edge/http1/handler.ts'
import { downstreamOf } from '../edge/rules/client-address.ts'
import { CANCELLED, isGrpc } from '../edge/rules/grpc.ts'
import { acceptedRequestId, interactionIdOf, newRequestId } from '../edge/rules/request-id.ts'
import { timestampOf } from '../edge/syntax/timestamp.ts'
import { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { close } from './close.ts'

const CLIENT_GONE = 499

export function open(gateway: Gateway, arrival: ReceivedRequest): Exchange {
  const { req, res, upgrade } = arrival
  const { headers } = req
  const { trustedProxies, interactionId } = gateway.settings
  const downstream = downstreamOf(req.peer, headers, trustedProxies)
  const clientsId = acceptedRequestId(headers.requestId)
  const ownId = newRequestId()
  const exchange = new Exchange({
    req,
    res,
    upgrade,
    requestId: clientsId ?? ownId,
    gatewayId: clientsId === undefined ? undefined : ownId,
    interactionId: interactionId ? interactionIdOf(headers.interactionId) : undefined,
    timestamp: timestampOf(gateway.clock()),
    startedSteadyMs: gateway.steadyClock(),
    address: downstream.address,
    peer: downstream.peer,
    viaTrustedProxy: downstream.viaTrustedProxy,
  })
  if (gateway.tracer !== undefined) {
    exchange.trace = gateway.tracer.begin(req.fields, downstream.viaTrustedProxy)
  }
  gateway.load.inFlight.add(exchange)
  res.onClose(() => closeAbandoned(gateway, exchange))
  return exchange
}

export function closeAbandoned(gateway: Gateway, exchange: Exchange): void {
  if (exchange.closed) {
    // An upstream may send all of an announced body and not end its stream.
    exchange.forwarding?.abort()
    return
  }
  exchange.forwarding?.clientGone()
  if (isGrpc(exchange.req)) exchange.grpcStatus = CANCELLED
  close(gateway, exchange, CLIENT_GONE)
}
