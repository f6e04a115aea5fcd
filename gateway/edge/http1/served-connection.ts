import type { Socket } from 'node:net'
import type { Timed } from '../syntax/deadlines.ts'
import type { Activity, ClientNetwork } from './client-networks.ts'
import type { DeadlineTerms } from './connection-deadline.ts'
import type { Handler } from './handler.ts'
import type { Origin } from './incoming-request.ts'

/** A connection as its listener sees it, whatever its version of HTTP. */
export interface ServedConnection extends Timed, Activity {
  readonly socket: Socket
  /** Since when an idle connection has been idle. */
  readonly idleSinceMs: number
  /** Begins no more requests, and closes when those that have begun are finished. */
  retire(): void
}

/** How many streams may be open beside the first of each connection, which has the connection's own place. */
export interface StreamRoom {
  /** @returns false when the address has its share */
  take(network: ClientNetwork): boolean
  release(network: ClientNetwork): void
  /** For a stream that has no place, until it has its response. @returns false when too many of those wait */
  refuse(): boolean
  refused(): void
}

/** What all connections of HTTP/2 share. `E`: the handler's record of a request. */
export interface StreamTerms<E> extends DeadlineTerms {
  readonly handler: Handler<E>
  /** Wall time, milliseconds since the epoch. */
  readonly clock: () => number
  readonly room: StreamRoom
  /** The gateway is stopping: a connection ends with the requests that it has. */
  readonly isLeaving: () => boolean
  readonly left: (connection: ServedConnection) => void
}

/** Serves HTTP/2. Set only where a client may speak it: nothing of it is loaded otherwise. */
export interface Http2Protocol {
  /** On a connection that has agreed on it. */
  serve<E>(socket: Socket, origin: Omit<Origin, 'socket'>, terms: StreamTerms<E>): ServedConnection
  /** Finds out by its first bytes whether a client speaks it, and then calls `found` once with nothing read. */
  recognise(
    socket: Socket,
    terms: DeadlineTerms & Pick<StreamTerms<unknown>, 'left'>,
    found: (isHttp2: boolean) => void,
  ): ServedConnection
}
