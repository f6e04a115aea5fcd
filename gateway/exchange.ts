import type { TLSSocket } from 'node:tls'
import type { Route } from './config/settings.ts'
import type { RequestHeaders } from './http/rules/request-headers.ts'
import type { ClientResponse } from './http/server/client-response.ts'
import type { ReceivedRequest } from './http/server/handler.ts'
import type { IncomingRequest } from './http/server/incoming-request.ts'
import type { Slotted } from './http/syntax/slots.ts'
import type { Principal } from './principal.ts'
import type { RefusalCode } from './refusals.ts'
import type { Share } from './upstream/upstream-places.ts'

/** What `open` knows of a request before any stage has looked at it. */
export interface ExchangeStart extends ReceivedRequest {
  readonly requestId: string
  readonly gatewayId: string | undefined
  /** Wall time, ISO 8601. */
  readonly timestamp: string
  /** On the gateway's steady clock. */
  readonly startedSteadyMs: number
  readonly address: string
  readonly peer: string
  readonly viaTrustedProxy: boolean
}

/** What goes on upstream for an exchange. */
export interface OngoingForwarding {
  /** Gives it up. */
  abort(): void
  /** The client has gone; before `close`. */
  clientGone(): void
}

/**
 * One request with its answer, from first byte to close. Data only. Every field has a default and one writer, named
 * beside it; fields stand in the order in which the stages write them.
 */
export class Exchange implements Slotted {
  /** open, close: its place among those in flight. */
  slot = -1
  /** open. */
  readonly req: IncomingRequest
  readonly res: ClientResponse
  readonly upgrade: 'websocket' | undefined
  readonly headers: RequestHeaders
  readonly requestId: string
  /** Our own id, when `requestId` is the client's; it names the pair of audit records. */
  readonly gatewayId: string | undefined
  /** On the gateway's steady clock: what the duration is measured from. */
  readonly startedSteadyMs: number
  /** Start of the request as ISO 8601: the same in both audit records. */
  readonly timestamp: string
  readonly method: string
  /** Downstream address after trusted-proxy rules. */
  readonly address: string
  /** The other end of the connection: a proxy, perhaps. */
  readonly peer: string
  readonly viaTrustedProxy: boolean
  /** The connection, when it is encrypted. */
  readonly secure: TLSSocket | undefined
  /** admit, or the pipeline for a request that could not be read: normalised; `-` when there was no target. */
  path = '-'
  /** admit: as received, with its question mark. */
  query = ''
  /** admit: authority of the target, or Host. */
  host = ''
  /** route. */
  route: Route | undefined = undefined
  /** authenticate. */
  principal: Principal | undefined = undefined
  /** authenticate: the body, when all of it had to be seen before any of it goes on. */
  bufferedBody: Buffer | undefined = undefined
  /** record: the API_REQUEST line that is in the trail; undefined until then. */
  requestLine: string | undefined = undefined
  /** occupy: whose place upstream it has; undefined until it has one. */
  share: Share | undefined = undefined
  /** limit: RateLimit fields for the answer, flat. */
  limitHeaders: readonly string[] = []
  /** refuse: undefined for a forwarded answer. */
  refusalCode: RefusalCode | undefined = undefined
  /** forward: what is going on upstream. */
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
