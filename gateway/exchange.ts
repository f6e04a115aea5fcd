import type { TLSSocket } from 'node:tls'
import type { Delivery } from './auth/deliveries.ts'
import type { Route } from './config/settings.ts'
import type { OutgoingResponse, ReceivedRequest } from './edge/http1/handler.ts'
import type { IncomingRequest } from './edge/http1/incoming-request.ts'
import type { RequestHeaders } from './edge/rules/request-headers.ts'
import type { Slotted } from './edge/syntax/slots.ts'
import type { PendingTake } from './limits/limiter.ts'
import type { Principal } from './principal.ts'
import type { RefusalCode } from './refusals.ts'
import type { Trace } from './tracing/trace.ts'
import type { UpstreamClient } from './upstream/create-upstreams.ts'
import type { UpstreamPermits } from './upstream/upstream-permits.ts'

/** A route with what is looked up for it at load. */
export interface ServedRoute extends Route {
  /** Client of its upstream group. */
  readonly client: Pick<UpstreamClient, 'send' | 'speaksHttp2'>
  /** Permits of its upstream group; undefined: the group has no bound of its own. */
  readonly permits: UpstreamPermits | undefined
  /** Masks its paths for records and spans; undefined: they are shown. */
  readonly maskPath: ((path: string) => string) | undefined
}

/** What is known of a request before the first stage. */
interface ExchangeStart extends ReceivedRequest {
  readonly requestId: string
  readonly gatewayId: string | undefined
  readonly interactionId: string | undefined
  /** Wall time, ISO 8601. */
  readonly timestamp: string
  /** On the gateway's steady clock. */
  readonly startedSteadyMs: number
  readonly address: string
  readonly peer: string
  readonly viaTrustedProxy: boolean
}

/** The upstream side of an exchange. */
export interface OngoingForwarding {
  abort(): void
  /** The client has disconnected. Called before `close`. */
  clientGone(): void
}

/**
 * One request and its response, from the first byte to the end. Data only. Each field has a default and a single writer,
 * which its comment names. Fields are listed in the order in which the stages write them.
 */
export class Exchange implements Slotted {
  /** open, close: its index in `load.inFlight`. */
  slot = -1
  /** open. */
  readonly req: IncomingRequest
  readonly res: OutgoingResponse
  readonly upgrade: ReceivedRequest['upgrade']
  readonly headers: RequestHeaders
  readonly requestId: string
  /** The gateway's own id, set only when `requestId` came from the client; it identifies the pair of audit records. */
  readonly gatewayId: string | undefined
  /** `x-fapi-interaction-id`, if the gateway keeps them. */
  readonly interactionId: string | undefined
  /** On the steady clock; durations are measured from it. */
  readonly startedSteadyMs: number
  /** Start of the request, ISO 8601; the same in both audit records. */
  readonly timestamp: string
  readonly method: string
  /** The client's address, after the trusted-proxy rules. */
  readonly address: string
  /** Address of the other end of the connection, which may be a proxy. */
  readonly peer: string
  readonly viaTrustedProxy: boolean
  /** The connection, if it uses TLS. */
  readonly secure: TLSSocket | undefined
  /** open: undefined unless the request is sampled for tracing. */
  trace: Trace | undefined = undefined
  /** admit (or the pipeline, for an unreadable request): the normalised path; `-` when there is no target. */
  path = '-'
  /** admit: the query as received, with its question mark. */
  query = ''
  /** admit: the authority of the target, else Host. */
  host = ''
  /** route. */
  route: ServedRoute | undefined = undefined
  /** authenticate. */
  principal: Principal | undefined = undefined
  /** authenticate: the caller would be refused without the client certificate of the connection. */
  needsCertificate = false
  /** authenticate, validate: the whole body, when it had to be checked before forwarding. */
  bufferedBody: Buffer | undefined = undefined
  /** authenticate: a webhook that is remembered once the service has taken it. */
  delivery: Delivery | undefined = undefined
  /** askStore: what the shared store decides about the request's limit. */
  pendingTake: PendingTake | undefined = undefined
  /** record: the path as records and spans show it, its masked parameters as pseudonyms; `-` until then. */
  recordedPath = '-'
  /** record: the API_REQUEST line in the audit trail; undefined until it is there. */
  requestLine: string | undefined = undefined
  /** record: it could not be recorded and has been counted as that; it is not tried again. */
  recordFailed = false
  /** takePermit: the caller that its upstream permit is counted for; undefined while it has none. */
  permitHolder: string | undefined = undefined
  /** limit: RateLimit fields for the response, flat: name, value, name, value. */
  limitHeaders: readonly string[] = []
  /** refuse: undefined for a forwarded response. */
  refusalCode: RefusalCode | undefined = undefined
  /** forward, forwarding, refuse, open: what a call of gRPC came to; undefined for other requests. */
  grpcStatus: number | undefined = undefined
  /** forward: the traceparent that went upstream. */
  traceparent: string | undefined = undefined
  /** forward: the upstream side. */
  forwarding: OngoingForwarding | undefined = undefined
  /** close. */
  closed = false

  constructor(start: ExchangeStart) {
    this.req = start.req
    this.res = start.res
    this.upgrade = start.upgrade
    this.headers = start.req.headers
    this.requestId = start.requestId
    this.gatewayId = start.gatewayId
    this.interactionId = start.interactionId
    this.startedSteadyMs = start.startedSteadyMs
    this.timestamp = start.timestamp
    this.method = start.req.method
    this.address = start.address
    this.peer = start.peer
    this.viaTrustedProxy = start.viaTrustedProxy
    const { socket } = start.req
    this.secure = 'encrypted' in socket ? (socket as TLSSocket) : undefined
  }
}
