import type { Field } from '../../http/syntax/field.ts'
import type { ConnectError } from '../undici/undici-connection.ts'
import type { UpstreamFaultKind } from '../upstream-client.ts'
import type { Asked } from './response-parser.ts'
import type { UpgradedStream } from './upgraded-stream.ts'

/** The exchange that a connection carries. `nowMs` is the connection's clock, read once for each piece that came. */
export interface Carried extends Asked {
  readonly hasBody: boolean
  /** The connection stands: the request may be written. */
  connected(): void
  /** It could not be made; nothing was sent. */
  unconnected(error: ConnectError): void
  interim(status: number, fields: readonly Field[]): void
  head(status: number, fields: readonly Field[], nowMs: number): void
  /** @returns `false` to be held back. */
  data(piece: Buffer, nowMs: number): boolean
  /** The answer is whole; the connection is off the exchange's hands. */
  ended(): void
  switched(fields: readonly Field[], socket: UpgradedStream): void
  /** The connection is gone. */
  failed(kind: UpstreamFaultKind, cause: string): void
}
