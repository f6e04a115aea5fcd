import type { Field } from '../../http/syntax/field.ts'
import type { ConnectError } from '../open-connection.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import type { PendingRequest } from './response-parser.ts'
import type { UpgradedStream } from './upgraded-stream.ts'

/** The exchange that uses a connection. `nowMs`: the connection's clock, read once for each piece received. */
export interface ConnectionUser extends PendingRequest {
  readonly hasBody: boolean
  /** The request may be written. */
  connected(): void
  /** The connection could not be made; nothing was sent. */
  connectFailed(error: ConnectError): void
  interim(status: number, fields: readonly Field[]): void
  head(status: number, fields: readonly Field[], nowMs: number): void
  /** @returns `false` to pause. */
  data(piece: Buffer, nowMs: number): boolean
  /** The response is complete, and the connection no longer belongs to this exchange. */
  ended(): void
  switched(fields: readonly Field[], socket: UpgradedStream): void
  /** The connection is lost. */
  failed(kind: UpstreamFaultKind, cause: string): void
}
