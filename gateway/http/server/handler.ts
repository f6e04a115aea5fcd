import type { BodyPaceRule } from '../bodies/body-pace.ts'
import type { ClientResponse } from './client-response.ts'
import type { IncomingRequest } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'

/** How long clients may take, milliseconds. */
export interface ClientTimeouts {
  /** From the first byte of a request, or from accept, to the end of its head. */
  readonly headersMs: number
  /** From the first byte of a request to its last; infinite: only `bodyPace` counts. */
  readonly requestMs: number
  readonly bodyPace: BodyPaceRule
  /** Between a response and the next request. */
  readonly keepAliveMs: number
  /** How long a client may take nothing of its response, unless the response says otherwise. */
  readonly idleMs: number
}

/** A request as the handler gets it. */
export interface ReceivedRequest {
  readonly req: IncomingRequest
  readonly res: ClientResponse
  /** Set for a valid upgrade request; any other is handled as an ordinary request. */
  readonly upgrade: 'websocket' | undefined
}

/** Handles requests. `E`: the handler's record of one request under way. */
export interface Handler<E> {
  /** A request with a complete head. @param fault why its rest will not come: respond with it. */
  begin(received: ReceivedRequest, fault: RequestFault | undefined): E
  /** A head that cannot be read, or did not come whole. `req` has what could be read of it. */
  unreadable(received: ReceivedRequest, fault: RequestFault): E
  /** The rest of a request under way will not come. */
  interrupt(exchange: E, fault: RequestFault): void
  /** A client closed with about so many pipelined requests, none of which has begun. */
  abandoned(peer: string, requests: number): void
}
