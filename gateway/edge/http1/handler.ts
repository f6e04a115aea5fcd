import type { Socket } from 'node:net'
import type { RefusalCode } from '../../refusals.ts'
import type { FilteredHead } from '../rules/response-headers.ts'
import type { Field } from '../syntax/field.ts'
import type { IncomingRequest } from './incoming-request.ts'

/** The head of a response, without the fields about the connection. */
export interface ResponseHead extends FilteredHead {
  readonly status: number
}

/** The response to one request, whatever its version of HTTP. Writes to a client that is gone are ignored. */
export interface OutgoingResponse {
  /** True when the connection may be used again. Has an effect until the head is written, and in HTTP/1 only. */
  keepAlive: boolean
  /** How long the client may take nothing of it; undefined: the usual time. */
  idleMs: number | undefined
  /** True once the head is sent or certain to be sent. Until then another head may replace it. */
  readonly headersSent: boolean
  /** True while pieces of the body have not been handed to the operating system. */
  readonly isHolding: boolean
  /** Calls `listener` once, when the response is complete or its client is gone. */
  onClose(listener: () => void): void
  /** Calls `listener` once, when more is accepted again. */
  onDrain(listener: () => void): void
  /** Sends an interim response (RFC 9110 section 15.2). */
  writeInterim(status: number, lines: string): void
  writeHead(head: ResponseHead): void
  /** Sends the head, unless it has gone already. */
  flushHead(): void
  /** Writes a piece of the body. @returns false when the next one should wait for `onDrain`. */
  write(piece: Buffer): boolean
  /** Ends the response. @param trailers lines like those of a head; HTTP/1 drops them */
  end(trailers?: string): void
  /** Holds back all writes until the returned function is called. */
  hold(): () => void
  /**
   * Ends the response with the switch to another protocol that `head` announces.
   *
   * @param onSwitched called once, when nothing is held any more. It then owns `socket`, which is undefined if the client has gone.
   * `unread` has the unread bytes if the client has closed its half; otherwise they are back in the socket.
   */
  switch(head: string, onSwitched: (socket: Socket | undefined, unread?: Buffer) => void): void
  /** Takes no further requests over this connection. Has an effect until the head is written. */
  retireConnection(): void
  /** Breaks off, so that no client takes a part for the whole. @param isLate true when the client was late: HTTP/2 has a code for it */
  breakOff(isLate?: boolean): void
}

export interface ReceivedRequest {
  readonly req: IncomingRequest
  readonly res: OutgoingResponse
  /** What the client asks for instead of a response; undefined for an ordinary request. */
  readonly upgrade: Upgrade | undefined
}

/** Gets the requests of all connections. `E`: its record of one request under way. */
export interface Handler<E> {
  /** Begins a request whose head is complete. @param fault why its rest will not come: the request is refused with it. */
  begin(received: ReceivedRequest, fault: RequestFault | undefined): E
  /** Refuses a request whose head cannot be read or did not come whole. `req` has what could be read. */
  unreadable(received: ReceivedRequest, fault: RequestFault): E
  /** Ends a request under way whose rest does not come, or whose response is not taken. */
  interrupt(exchange: E, fault: RequestFault): void
  /** Called when requests of a client will never begin. @param requests about how many */
  abandoned(peer: string, requests: number): void
}

/** Why a request, or the transfer of its response, cannot be completed. */
export interface RequestFault {
  readonly code: RefusalCode
  /** For the log only. */
  readonly cause: string
}

export const HEAD_LATE: RequestFault = { code: 'request_timeout', cause: 'its head did not come in time' }
export const BODY_LATE: RequestFault = {
  code: 'request_timeout',
  cause: 'its body came too slowly, or not at all',
}
export const NOT_TAKEN: RequestFault = {
  code: 'response_timeout',
  cause: 'the client took nothing of its response',
}
export const CLIENT_GONE: RequestFault = {
  code: 'malformed_request',
  cause: 'the client closed the connection before the request was complete',
}

/** The protocol that a request asks for. `other version`: a version of WebSocket other than 13 (RFC 6455 section 4.2.2). */
export type Upgrade = 'websocket' | 'other version'

/**
 * Reads what a GET without a body asks for (RFC 6455 section 4.2.1). HTTP/1.0 cannot ask for another protocol (RFC 9110 section 7.8).
 *
 * @param request whose Connection field names Upgrade
 * @returns undefined where it does not ask for WebSocket alone
 */
export function upgradeOf({
  method,
  version,
  fields,
  body,
}: Pick<IncomingRequest, 'method' | 'version' | 'fields' | 'body'>): Upgrade | undefined {
  if (method !== 'GET' || version !== '1.1' || body !== null) return undefined
  const asked = joined(fields, 'sec-websocket-version')
  if (joined(fields, 'upgrade')?.toLowerCase() !== 'websocket' || asked === undefined) return undefined
  if (joined(fields, 'sec-websocket-key') === undefined) return undefined
  return asked === '13' ? 'websocket' : 'other version'
}

/** @returns all values of a field, joined by commas; undefined when there is none. */
function joined(fields: readonly Field[], name: string): string | undefined {
  const values = fields.filter(({ lower }) => lower === name).map(({ value }) => value)
  return values.length === 0 ? undefined : values.join(', ')
}

/** The head of a 101 response (RFC 9110 section 15.2.2). @param lines each with its CR LF */
export function upgradeHead(lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines}\r\n`
}
