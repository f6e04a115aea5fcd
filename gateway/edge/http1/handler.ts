import type { Socket } from 'node:net'
import type { FilteredHead } from '../rules/response-headers.ts'
import type { IncomingRequest } from './incoming-request.ts'
import type { RequestFault } from './request-fault.ts'
import type { Upgrade } from './tunnels/websocket.ts'

/** The head of a response, without the fields about the connection. */
export interface ResponseHead extends FilteredHead {
  readonly status: number
}

/** The response to one request, whatever its version of HTTP. Writes to a client that is gone are ignored. */
export interface OutgoingResponse {
  /** Whether the connection may be used again. Has an effect until the head is written, and in HTTP/1 only. */
  keepAlive: boolean
  /** How long the client may take nothing of it; undefined: the usual time. */
  idleMs: number | undefined
  /** The head is sent, or will be before anything else. Until then another head may replace it. */
  readonly headersSent: boolean
  /** Pieces of the body have not been handed to the operating system yet. */
  readonly isHolding: boolean
  /** Called once, when the response is complete or its client is gone. */
  onClose(listener: () => void): void
  /** Called once, when more is accepted again. */
  onDrain(listener: () => void): void
  /** An interim response (RFC 9110 section 15.2). */
  writeInterim(status: number, lines: string): void
  writeHead(head: ResponseHead): void
  /** Sends the head, unless it has gone already. */
  flushHead(): void
  /** A piece of the body. @returns false when the next one should wait for `onDrain`. */
  write(piece: Buffer): boolean
  /** The response is complete. @param trailers lines as of a head; HTTP/1 drops them */
  end(trailers?: string): void
  /** Holds back all writes until the returned function is called. */
  hold(): () => void
  /**
   * Ends the response with the switch to another protocol that `head` announces.
   *
   * @param onSwitched called once, when nothing is held any more, with the socket, which the caller owns from then on, and with
   * what has come if the client has closed its half, otherwise the socket has it; without a socket when the client went before
   */
  switch(head: string, onSwitched: (socket: Socket | undefined, unread?: Buffer) => void): void
  /**
   * Takes no more requests over this connection than have come: the client should use another one. Has an effect until the
   * head is written.
   */
  retireConnection(): void
  /** Lets no client take a partial response for a complete one. @param isLate the client was: HTTP/2 has a code for it */
  breakOff(isLate?: boolean): void
}

export interface ReceivedRequest {
  readonly req: IncomingRequest
  readonly res: OutgoingResponse
  /** What the request asks for instead of a response; undefined for an ordinary request. */
  readonly upgrade: Upgrade | undefined
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
