import type { Address } from '../upstream-address.ts'

/** The owner of connections: makes them, and is told what becomes of them. */
export interface ConnectionOwner<Connection> {
  readonly address: Address
  readonly connectMs: number
  readonly clock: () => number
  connected(): void
  /** The connection could not be made. Not called when the attempt was given up. */
  connectFailed(): void
  /** The connection can take another exchange. */
  free(connection: Connection): void
  /** The connection takes no further exchange. */
  retired(connection: Connection): void
  /** A socket was closed. */
  closed(): void
}
