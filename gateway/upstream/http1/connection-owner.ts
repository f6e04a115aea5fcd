import type { Address } from '../upstream-address.ts'

/** What a connection tells its owner, which is the pool. */
export interface ConnectionOwner<Connection> {
  readonly address: Address
  readonly connectMs: number
  readonly clock: () => number
  connected(): void
  /** The connection could not be made. Not called when we aborted the attempt. */
  connectFailed(): void
  /** The connection can take another exchange. */
  free(connection: Connection): void
  /** The connection takes no further exchange. */
  retired(connection: Connection): void
  /** A socket was closed. */
  closed(): void
}
