import type { ClientResponse } from './client-response.ts'
import type { IncomingRequest } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'

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
