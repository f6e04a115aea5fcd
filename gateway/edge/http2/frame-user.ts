import type { HeadBounds } from '../http1/connection-deadline.ts'
import type { Field } from '../syntax/field.ts'
import type { ClientSettings } from './client-settings.ts'
import type { ConnectionGuard } from './connection-guard.ts'
import type { StreamHead } from './stream-head.ts'
import type { StreamTable } from './stream-table.ts'

/** A stream as its frames see it. */
export interface FramedStream {
  readonly id: number
  readonly isRemoteClosed: boolean
  /** What the client may still send before it gets more leave. */
  receiveWindow: number
  /** What we may still send, and what waits for that. */
  readonly res: { window: number; pump(): void }
  /** @param isLast END_STREAM stands in its frame */
  receive(piece: Buffer, isLast: boolean): void
  /** Gives leave for bytes that were no content. */
  creditPadding(bytes: number): void
  /** END_STREAM has come. */
  complete(trailers?: readonly Field[]): void
  /** Fields behind the body that are not allowed have come. */
  refuseTrailers(): void
  /** RST_STREAM has come. */
  reset(): void
}

/** The connection as its frames see it. */
export interface FrameUser<S extends FramedStream> {
  readonly isOver: boolean
  readonly isSecure: boolean
  readonly head: HeadBounds
  readonly streams: StreamTable<S>
  readonly guard: ConnectionGuard
  readonly settings: ClientSettings
  sendWindow: number
  write(frame: Buffer): void
  /** A fault of the connection: GOAWAY, and its end. */
  fail(code: number): void
  /** A fault of a stream, open or not. */
  resetStream(id: number, code: number): void
  /** A request has begun. */
  open(id: number, head: StreamHead, endsStream: boolean): void
  /** More may be sent on all streams. */
  pumpAll(): void
  /** The client says that it goes. */
  retire(): void
}
