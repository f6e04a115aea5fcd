import type { Socket } from 'node:net'
import type { RefusalCode } from '../../refusals.ts'
import type { FilteredHead } from '../rules/response-headers.ts'
import { combinedValue } from '../syntax/field.ts'
import type { IncomingRequest } from './incoming-request.ts'

/** The head of a response, without the fields about the connection. */
export interface ResponseHead extends FilteredHead {
  readonly status: number
}

/** The response to one request. Writes to a client that is gone are ignored. */
export interface OutgoingResponse {
  /** True when an HTTP/1 connection may be used again. A change has no effect once the head is written. */
  keepAlive: boolean
  /** How long the client may take nothing; undefined: the usual time. */
  idleMs: number | undefined
  /** True once no other head can replace this one. */
  readonly headersSent: boolean
  /** True while the operating system has not taken all that was written. */
  readonly isHolding: boolean
  /** Calls `listener` once, when the response is complete or its client is gone. */
  onClose(listener: () => void): void
  /** Calls `listener` once, when more is accepted again. */
  onDrain(listener: () => void): void
  /** RFC 9110 section 15.2. */
  writeInterim(status: number, lines: string): void
  writeHead(head: ResponseHead): void
  /** Sends the head once. */
  flushHead(): void
  /** @returns false when the next piece should wait for `onDrain` */
  write(piece: Buffer): boolean
  /** @param trailers lines like those of a head; HTTP/1 drops them */
  end(trailers?: string): void
  /** Holds back all writes until the returned function is called. */
  hold(): () => void
  /**
   * Switches to the protocol that `head` announces.
   * @param onSwitched called once, when nothing is held any more. It owns `socket`, undefined if the client
   * has gone; `unread` has bytes only if the client has closed its half.
   */
  switch(head: string, onSwitched: (socket: Socket | undefined, unread?: Buffer) => void): void
  /** Takes no further requests over this connection. */
  retireConnection(): void
  /** Breaks off, so that no client takes a part for the whole. @param isLate the client was late (HTTP/2: another code) */
  breakOff(isLate?: boolean): void
}

export interface ReceivedRequest {
  readonly req: IncomingRequest
  readonly res: OutgoingResponse
  readonly upgrade: Upgrade | undefined
}

/** Handles all requests. `E`: its record of one request. */
export interface Handler<E> {
  /** Begins a request whose head is complete. @param fault why to refuse the request, whose rest is not read */
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

/** `other version`: a version of WebSocket other than 13 (RFC 6455 section 4.2.2). */
export type Upgrade = 'websocket' | 'other version'

/**
 * Reads what a GET without a body asks for (RFC 6455 section 4.2.1).
 * @param request whose Connection field names Upgrade; HTTP/1.0 has no upgrades (RFC 9110 section 7.8)
 * @returns undefined unless it asks for WebSocket alone
 */
export function upgradeOf({
  method,
  version,
  fields,
  body,
}: Pick<IncomingRequest, 'method' | 'version' | 'fields' | 'body'>): Upgrade | undefined {
  if (method !== 'GET' || version !== '1.1' || body !== null) return undefined
  const asked = combinedValue(fields, 'sec-websocket-version')
  if (combinedValue(fields, 'upgrade')?.toLowerCase() !== 'websocket' || asked === undefined) return undefined
  if (combinedValue(fields, 'sec-websocket-key') === undefined) return undefined
  return asked === '13' ? 'websocket' : 'other version'
}

/** @param lines each with its CR LF */
export function upgradeHead(lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines}\r\n`
}
