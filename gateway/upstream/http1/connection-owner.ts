import type { Address } from '../upstream-address.ts'
import type { PlainConnection } from './plain-connection.ts'

/** Where connections come from and go back to. */
export interface Keeper {
  readonly address: Address
  readonly connectMs: number
  readonly clock: () => number
  /** It stands, whatever becomes of it. */
  connected(): void
  /** It could not be made, though nobody gave the attempt up. */
  unconnected(): void
  /** It can carry another exchange. */
  free(connection: PlainConnection): void
  /** It carries no exchange any more, now or ever. */
  gone(connection: PlainConnection): void
  /** Its socket is closed. */
  closed(): void
}
