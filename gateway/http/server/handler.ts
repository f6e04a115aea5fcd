import type { BodyPaceRule } from '../bodies/body-pace.ts'
import type { ClientResponse } from './client-response.ts'
import type { IncomingRequest } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'

/** Times that a client is given, milliseconds. */
export interface ClientTimeouts {
  /** From the first byte of a request, or from the beginning of the connection, to the end of its head. */
  readonly headersMs: number
  /** From the first byte of a request to its last; infinite: as long as its body keeps pace. */
  readonly requestMs: number
  readonly bodyPace: BodyPaceRule
  /** Between an answer and the next request. */
  readonly keepAliveMs: number
  /** In which a client takes nothing of what is written for it, unless the request has its own. */
  readonly idleMs: number
}

/** A request, as the handler is given it. */
export interface ReceivedRequest {
  readonly req: IncomingRequest
  readonly res: ClientResponse
  /** The protocol it asks to go on with, when that can be done; else the request is an ordinary one. */
  readonly upgrade: 'websocket' | undefined
}

/** Who answers. `E` stands for one request under way. */
export interface Handler<E> {
  /** A request whose head is whole. `fault`: its rest will not come, and this is its answer. */
  begin(received: ReceivedRequest, fault: RequestFault | undefined): E
  /** Bytes that are no request; of its head there is only what `req` names. */
  unreadable(received: ReceivedRequest, fault: RequestFault): E
  /** The rest of a request under way will not come. */
  interrupt(exchange: E, fault: RequestFault): void
  /** A client has gone that had sent about so many requests ahead: none of them is begun any more. */
  abandoned(peer: string, requests: number): void
}
