import type { Duplex, Readable } from 'node:stream'
import type { Field } from '../edge/syntax/field.ts'
import type { CommonFields } from './common-fields.ts'

/** A checked request, which can be written as it is. */
export interface UpstreamRequest {
  readonly method: string
  /** Normalised path with its query. */
  readonly target: string
  /** All fields that are not in `common`. Neither list has hop-by-hop fields or Expect. */
  readonly fields: readonly Field[]
  /** True when Host names the upstream. */
  readonly namesTarget?: boolean
  /** Shared with other requests, sent before `fields`. Host, and Content-Length if known, stand in one of the two. */
  readonly common?: CommonFields
  /** A buffer is the whole body, of the announced length. */
  readonly body: Readable | Buffer | null
  /** `websocket`, say. */
  readonly upgrade: string | undefined
  /** How long the upstream may go without taking or sending a piece of a body. */
  readonly idleMs: number
  /** From `send` to the last byte of the response. Undefined: no limit. */
  readonly totalMs: number | undefined
  /** True when the client has chosen `totalMs`. An upstream that takes longer has not failed then. */
  readonly isTotalOfClient?: boolean
  readonly attempts?: Attempts | undefined
  /** True for gRPC (HTTP/2 only): before the head, either side may send, and both may be silent for `idleMs`. */
  readonly isDuplex?: boolean
  /** HTTP/2 only. */
  readonly acceptsTrailers?: boolean
  /** HTTP/2 only; called when all of the body was read. */
  readonly trailers?: (() => readonly Field[]) | undefined
}

export interface Attempts {
  /** @returns true when it has changed the request's `fields`, so that the head must be written again */
  began(upstream: string): boolean
  /** @param status of a response that is not passed on */
  failed(error: string, status?: number): void
}

/**
 * `unreachable`, `unavailable` (every circuit breaker is open): nothing was sent. `timeout`: the upstream was too slow.
 * `broken`: the connection, or the request body, ended too early. `malformed`: no HTTP that can be passed on. `unread`:
 * the total ran out while the receiver held the response back. `unsent`: the request body did not come.
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
  /** For the log only. */
  readonly cause: string
  /** True when the upstream is not to blame: the client's total ran out, or the response was still coming. */
  readonly isNeutral?: boolean
  /** Time until a breaker lets a request through. */
  readonly retryAfterMs?: number
}

/**
 * Calls come in this order: `information` any number of times, then either `head`, `data` and `end`, or `upgrade`.
 * `fault` may replace any of them, and is the last.
 */
export interface UpstreamResponse {
  /** RFC 9110 section 15.2; never 100 or 101. */
  information(status: number, fields: readonly Field[]): void
  /** The fields include hop-by-hop fields. */
  head(status: number, fields: readonly Field[]): void
  /** The bytes are overwritten afterwards, unless `isHolding`. Return `false` to pause until `UpstreamCall.resume`. */
  data(chunk: Buffer): boolean
  readonly isHolding: boolean
  /** @param trailers of HTTP/2, as trailers of HTTP/1.1 are dropped */
  end(trailers?: readonly Field[]): void
  /** The receiver owns the socket now, with the bytes after the head. */
  upgrade(fields: readonly Field[], socket: Duplex): void
  fault(fault: UpstreamFault): void
}

export interface UpstreamCall {
  resume(): void
  /** Afterwards the response gets no calls. May be repeated. */
  abort(): void
  /** True once writing has begun, so that the upstream may act on the request. */
  readonly sent: boolean
  /** As configured: a metric label. */
  readonly upstream: string
}
