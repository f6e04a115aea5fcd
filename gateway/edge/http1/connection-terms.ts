import type { Socket } from 'node:net'
import type { Timed } from '../syntax/deadlines.ts'
import type { Activity, ClientNetworks } from './client-networks.ts'
import type { DeadlineTerms } from './connection-deadline.ts'
import type { Handler } from './handler.ts'
import type { Origin } from './incoming-request.ts'

/**
 * Where a client connection stands.
 * - `idle`: between requests.
 * - `head`, `body`: part of a request has come.
 * - `response`: the request is complete, its response is not. New bytes are kept for later.
 * - `last response`: the connection closes after this response. New bytes are ignored.
 * - `lingering`: the last response is written, our half is closed. New bytes are thrown away.
 * - `detached`: the socket belongs to a tunnel, to HTTP/2, or to the process that replaces this one.
 */
export type ConnectionPhase =
  | 'idle'
  | 'head'
  | 'body'
  | 'response'
  | 'last response'
  | 'lingering'
  | 'detached'

/** Shared by all connections. `E`: the handler's record of a request, `C`: a connection of HTTP/1.1. */
export interface ConnectionTerms<E, C = never> extends DeadlineTerms {
  readonly handler: Handler<E>
  /** Wall time, milliseconds since the epoch. */
  readonly clock: () => number
  readonly networks: ClientNetworks
  /** True when the gateway stops. HTTP/2 connections then end after their present requests. */
  readonly isLeaving: () => boolean
  /** Called at close and detach. */
  readonly left: (connection: Timed) => void
  /** Set while another process takes the connections over: called between two requests. */
  between?: ((connection: C) => void) | undefined
  /** Set where clients without TLS may speak HTTP/2: called when one sends its preface. */
  readonly toHttp2?: ((connection: C) => void) | undefined
  readonly onPhase?: (from: ConnectionPhase, to: ConnectionPhase) => void
}

export interface ServedConnection extends Timed, Activity {
  readonly socket: Socket
  /** Takes no more requests, and closes when its last one is finished. */
  retire(): void
}

/** Serves HTTP/2. Loaded only where a client may speak it. */
export type Http2Protocol = <E>(
  socket: Socket,
  origin: Omit<Origin, 'socket'>,
  terms: ConnectionTerms<E>,
) => ServedConnection
