import type { Deadlines } from '../http/syntax/deadlines.ts'
import type { Choice } from './balancing/choice.ts'
import type { Origin } from './balancing/origin.ts'

/** What all exchanges of a gateway share. Times in milliseconds. */
export interface Terms<Kind extends Origin> {
  readonly clock: () => number
  readonly headersMs: number
  readonly choice: Choice<Kind>
  readonly deadlines: Deadlines
  /** Whose label a flight bears that never found a lane. */
  readonly first: Kind
  /** Nothing new is begun. Written by close. */
  closed: boolean
}
