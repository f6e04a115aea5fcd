import type { Duplex, Readable } from 'node:stream'
import type { Field } from '../http/syntax/field.ts'

/** One request to send upstream. Everything in it has been checked: names, values and path can go on the wire. */
export interface UpstreamCall {
  readonly method: string
  /** Normalised path with its query, beginning with `/`. */
  readonly target: string
  /** Includes Host, and Content-Length when the body's is known; no hop-by-hop field, no Expect. */
  readonly fields: readonly Field[]
  /** The downstream body, streamed with back-pressure; null when there is none. */
  readonly body: Readable | null
  /** Protocol of an upgrade (`websocket`), else undefined. */
  readonly upgrade: string | undefined
  /** In which nothing moves, though the upstream could go on: it takes nothing of the body, or sends nothing of its own. */
  readonly idleMs: number
  /** Whole exchange, from `send` to the last byte of the response; undefined: as long as it goes on. */
  readonly totalMs: number | undefined
}

/**
 * Why an upstream exchange failed. `unreachable`: nothing was sent, no connection stands. `timeout`: the upstream was
 * waited for, to connect, for its head, in its silence, or when the total ran out. `broken`: the connection ended or
 * reset before the answer was whole. `malformed`: the answer is not HTTP that can be passed on. The total ran out while
 * the receiver held the answer back: `unread`; while the rest of the request body was waited for: `unsent`.
 */
export type UpstreamFaultKind = 'unreachable' | 'timeout' | 'broken' | 'malformed' | 'unread' | 'unsent'

export interface UpstreamFault {
  readonly kind: UpstreamFaultKind
  /** For our log only; never for the client. */
  readonly cause: string
}

/** What the sender is told. Calls come in this order: information*, then head, data*, end; or upgrade; a fault ends all. */
export interface UpstreamAnswer {
  /** An interim answer (103); never 100, 101 or 102. */
  information(status: number, fields: readonly Field[]): void
  /** The final answer's head, as received: hop-by-hop fields are still in it. */
  head(status: number, fields: readonly Field[]): void
  /** A piece of the body. Returns `false` to be held back until `resume()` of the flight. */
  data(chunk: Buffer): boolean
  /** The answer is whole. Trailers have been dropped. */
  end(): void
  /** 101: the socket belongs to the receiver from now on; its first bytes have been unshifted into it. */
  upgrade(fields: readonly Field[], socket: Duplex): void
  /** Once, instead of `end`; nothing follows. May come after `head`. */
  fault(fault: UpstreamFault): void
}

/** A request on its way. */
export interface Flight {
  /** Take up the body again after `data` returned `false`. */
  resume(): void
  /** Give up: the upstream connection is destroyed, nothing more is told. Safe to call at any time, any number of times. */
  abort(): void
  /** The upstream may act on it: it has been written, or is being written, to a connection that stands. */
  readonly sent: boolean
  /** The upstream that is being asked, as configured: label of metrics. */
  readonly upstream: string
}

/** The one door to what is behind the gateway. */
export interface Upstream {
  /** Never throws, and never calls back before it has returned. */
  send(call: UpstreamCall, answer: UpstreamAnswer): Flight
  /** Closes idle connections at once and the others when their exchange ends. */
  close(): Promise<void>
}
