import type { TLSSocket } from 'node:tls'
import type { Delivery } from './auth/deliveries.ts'
import type { SignedBy } from './auth/signatures/presented-signatures.ts'
import type { Route } from './config/settings.ts'
import type { OutgoingResponse, ReceivedRequest } from './edge/http1/handler.ts'
import type { IncomingRequest } from './edge/http1/incoming-request.ts'
import type { FairPermits } from './edge/rules/fair-share.ts'
import type { RequestHeaders } from './edge/rules/request-headers.ts'
import type { Slotted } from './edge/syntax/slots.ts'
import type { KeyedExchange } from './idempotency/keyed-exchange.ts'
import type { PendingTake } from './limits/limiter.ts'
import type { Principal } from './principal.ts'
import type { RefusalCode } from './refusals.ts'
import type { Trace } from './tracing/trace.ts'
import type { UpstreamClient } from './upstream/create-upstreams.ts'

export interface ServedRoute extends Route {
  readonly client: Pick<UpstreamClient, 'send' | 'speaksHttp2'>
  /** Undefined: the group has no bound of its own. */
  readonly permits: FairPermits | undefined
  /** For records and spans; undefined: paths are recorded unmasked. */
  readonly maskPath: ((path: string) => string) | undefined
  /** Set where the route publishes the gateway's keys. Such a route forwards no requests. */
  readonly jwks: Buffer | undefined
  /** URL of the upstream, for signatures; undefined: requests are not signed. */
  readonly signedTarget: string | undefined
}

type ExchangeStart = ReceivedRequest &
  Pick<Exchange, 'requestId' | 'gatewayId' | 'interactionId' | 'timestamp' | 'startedSteadyMs'> &
  Pick<Exchange, 'address' | 'peer' | 'viaTrustedProxy'>

export interface OngoingForwarding {
  abort(): void
  /** True once the service may act on the request. */
  readonly isSent: boolean
  /** Status of the service's response; 0 before its head. */
  readonly status: number
  /** Called when the client has disconnected, before `close`. */
  clientGone(): void
  /** Called at the end of a forwarding that went on without its client. */
  onEnd?: (() => void) | undefined
}

/** One request and its response, as data only. A field's comment begins with the stages that write it. */
export class Exchange implements Slotted {
  /** open, close: its index in `load.inFlight`. */
  slot = -1
  /** open. */
  readonly req: IncomingRequest
  readonly res: OutgoingResponse
  readonly upgrade: ReceivedRequest['upgrade']
  readonly headers: RequestHeaders
  readonly requestId: string
  /** Our own id in the audit records. Set only when `requestId` came from the client. */
  readonly gatewayId: string | undefined
  readonly interactionId: string | undefined
  readonly startedSteadyMs: number
  /** ISO 8601; the same in both audit records. */
  readonly timestamp: string
  readonly method: string
  /** By the rules for trusted proxies. */
  readonly address: string
  /** The other end of the connection: maybe a proxy. */
  readonly peer: string
  readonly viaTrustedProxy: boolean
  readonly secure: TLSSocket | undefined
  /** open: undefined unless the request is sampled. */
  trace: Trace | undefined = undefined
  /** admit (or screenAddress or the pipeline, when they refuse): normalised; `-` without a target. */
  path = '-'
  /** Written with `path`: as received, with its question mark. */
  query = ''
  /** admit: the authority of the target, else Host. */
  host = ''
  /** route. */
  route: ServedRoute | undefined = undefined
  /** authenticate. */
  principal: Principal | undefined = undefined
  /** authenticate: true when the caller would be refused without the client certificate. */
  needsCertificate = false
  /** authenticate, validate, receive, matchDetails, decide, idempotency: the whole body, read before forwarding. */
  bufferedBody: Buffer | undefined = undefined
  /** authenticate. */
  signed: SignedBy | undefined = undefined
  /** signResponse. */
  responseSignature: SignedBy | undefined = undefined
  /** authenticate: a webhook, to be remembered once the service has taken it. */
  delivery: Delivery | undefined = undefined
  /** askStore. */
  pendingTake: PendingTake | undefined = undefined
  /** record: with pseudonyms for masked parameters. */
  recordedPath = '-'
  /** record: the API_REQUEST line; undefined until the trail has taken it. */
  requestLine: string | undefined = undefined
  /** record: true in the callback of its commit. Other exchanges of the commit follow in the same turn. */
  isAtTurnEnd = false
  /** record: recording has failed and is not tried again. */
  recordFailed = false
  /** decide. */
  decisionId: string | undefined = undefined
  /** idempotency: the key that the request has begun. Forwarding takes it over when the client has gone. */
  keyed: KeyedExchange | undefined = undefined
  /** idempotency: the id of the request whose response is replayed. */
  replayOf: string | undefined = undefined
  /** takePermit: the caller that the permit is counted for; undefined: the exchange holds no permit. */
  permitHolder: string | undefined = undefined
  /** limit: names and values in turn. */
  limitHeaders: readonly string[] = []
  /** refuse: undefined for a forwarded response. */
  refusalCode: RefusalCode | undefined = undefined
  /** refuse: a client that the refused credential names. */
  claimedClient: string | undefined = undefined
  /** forward, forwarding, refuse, open: undefined unless the request is a gRPC call. */
  grpcStatus: number | undefined = undefined
  /** forward. */
  traceparent: string | undefined = undefined
  /** forward. */
  forwarding: OngoingForwarding | undefined = undefined
  /** forwarding: set once it goes on without the client. */
  orphan: Pick<OngoingForwarding, 'onEnd'> | undefined = undefined
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
