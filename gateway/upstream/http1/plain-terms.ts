import type { Origin } from '../balancing/origin.ts'
import type { Terms } from '../upstream-terms.ts'
import type { Connections } from './connection-pool.ts'
import type { Waiting } from './waiting-line.ts'

/** An upstream that is spoken to in the clear. */
export interface PlainOrigin extends Origin {
  readonly connections: Connections
}

export interface PlainTerms extends Terms<PlainOrigin> {
  readonly waiting: Waiting
  /** How long a call may wait for a connection to be made or to become free, milliseconds. */
  readonly connectMs: number
}
