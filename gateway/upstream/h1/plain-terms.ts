import type { Origin } from '../origin.ts'
import type { Terms } from '../terms.ts'
import type { Connections } from './connections.ts'
import type { Waiting } from './waiting.ts'

/** An upstream that is spoken to in the clear. */
export interface PlainOrigin extends Origin {
  readonly connections: Connections
}

export interface PlainTerms extends Terms<PlainOrigin> {
  readonly waiting: Waiting
  /** How long a call may wait for a connection to be made or to become free, milliseconds. */
  readonly connectMs: number
}
