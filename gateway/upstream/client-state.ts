import type { Deadlines } from '../http/syntax/deadlines.ts'
import type { Choice } from './balancing/choice.ts'
import type { Origin } from './balancing/origin.ts'

/** What all exchanges of an upstream client share. Times in milliseconds. */
export interface ClientState<Kind extends Origin> {
  readonly clock: () => number
  readonly headersMs: number
  readonly choice: Choice<Kind>
  readonly deadlines: Deadlines
  /** The upstream that a call names before it has a connection. */
  readonly first: Kind
  /** No exchange starts any more. Written by `close`. */
  closed: boolean
}
