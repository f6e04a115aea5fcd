import type { Duplex, Readable } from 'node:stream'
import type { Field } from '../edge/syntax/field.ts'
import type { CircuitBreaker } from './balancing/circuit-breaker.ts'
import type { Health } from './balancing/health.ts'
import type { CommonFields } from './common-fields.ts'

/** One request to send upstream. Already checked: method, target and fields can be written as they are. */
export interface UpstreamRequest {
  readonly method: string
  /** Normalised path with its query, beginning with `/`. */
  readonly target: string
  /** With Host, and Content-Length when the body's length is known; no hop-by-hop field, no Expect. */
  readonly fields: readonly Field[]
  /** Host is that of the upstream, not the one in the fields. */
  readonly namesTarget?: boolean
  /** Further ones, which come first and go with other requests too. Together they have Host and Content-Length once. */
  readonly common?: CommonFields
  /** The downstream body, streamed with back-pressure; null when there is none. */
  readonly body: Readable | null
  /** Protocol of an upgrade (`websocket`), else undefined. */
  readonly upgrade: string | undefined
  /** How long the upstream may neither take a piece of the request body nor send a piece of its response. */
  readonly idleMs: number
  /** For the whole exchange, from `send` to the last byte of the response; undefined: no limit. */
  readonly totalMs: number | undefined
  /** `totalMs` is what the client allows: an upstream that takes longer has not failed. */
  readonly isTotalOfClient?: boolean
  /** Told of each attempt; undefined: nobody is. */
  readonly attempts?: Attempts | undefined
  /** A call on which both sides may send, or be silent for `idleMs`, before the head too. Has an effect with HTTP/2 only. */
  readonly isDuplex?: boolean
  /** The client takes trailers of the response. Has an effect with HTTP/2 only, like `trailers`. */
  readonly acceptsTrailers?: boolean
  /** The fields behind the body; called when all of it was read. */
  readonly trailers?: (() => readonly Field[]) | undefined
}

export interface Attempts {
  /** The request is about to be sent to this upstream. @returns whether `fields` have changed since they were sent last */
  began(upstream: string): boolean
  /** The attempt failed. Another may follow. @param status of a response that is not passed on */
  failed(error: string, status?: number): void
}

/**
 * Why an exchange failed:
 *
 * - `unreachable`: no connection, so nothing was sent.
 * - `unavailable`: every circuit breaker is open, so nothing was sent.
 * - `timeout`: the upstream was too slow to connect, to send its head or the next piece, or when the total ran out.
 * - `broken`: the connection ended or was reset before the response was complete.
 * - `malformed`: the response is not HTTP that can be passed on.
 * - `unread`: the total ran out while the receiver held the response back.
 * - `unsent`: the total ran out while the rest of the request body was awaited, or neither it nor the response went on behind a head.
 */
export type UpstreamFaultKind =
  | 'unreachable'
  | 'unavailable'
  | 'timeout'
  | 'broken'
  | 'malformed'
  | 'unread'
  | 'unsent'

export interface UpstreamFault {
  readonly kind: UpstreamFaultKind
  /** For our log only; never for the client. */
  readonly cause: string
  /** A total is over that says nothing of the upstream: the client's, or that of a response that was still coming. */
  readonly isNeutral?: boolean
  /** `unavailable`: when a breaker will let a request through. */
  readonly retryAfterMs?: number
}

/**
 * Receives one response. The calls come in this order: `information` any number of times, then `head`, `data`, `end`; or
 * `upgrade`. `fault` may replace any of them and is the last.
 */
export interface UpstreamResponse {
  /** An interim response (RFC 9110 section 15.2), such as 102, 103 or 104; never 100 or 101. */
  information(status: number, fields: readonly Field[]): void
  /** The final head as received, hop-by-hop fields included. */
  head(status: number, fields: readonly Field[]): void
  /** A piece of the body; its bytes change afterwards unless `isHolding`. Return `false` to pause until `resume()` of the call. */
  data(chunk: Buffer): boolean
  /** Bytes of pieces are still needed. */
  readonly isHolding: boolean
  /** The response is complete. @param trailers of HTTP/2, as received; those of HTTP/1.1 have been dropped */
  end(trailers?: readonly Field[]): void
  /** 101: the receiver owns the socket now. Bytes that came after the head have been unshifted into it. */
  upgrade(fields: readonly Field[], socket: Duplex): void
  fault(fault: UpstreamFault): void
}

export interface UpstreamCall {
  /** Continues after `data` returned `false`. */
  resume(): void
  /** Destroys the upstream connection; the response gets no further calls. May be repeated. */
  abort(): void
  /** The upstream may already act on the request: writing it to a connection has begun. */
  readonly sent: boolean
  /** The upstream that was chosen, as configured: a metric label. */
  readonly upstream: string
}

export interface UpstreamTarget {
  readonly url: string
  readonly health: Health
  readonly breaker: CircuitBreaker | undefined
}
