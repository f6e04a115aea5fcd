import { BodyPace } from '../bodies/body-pace.ts'
import type { ResponseTerms } from './client-response.ts'
import type { ClientTimeouts, DeadlineTerms } from './connection-deadline.ts'
import type { ConnectionPhase } from './connection-phase.ts'
import type { Handler } from './handler.ts'

/** What all connections of one listener share. `E`: the handler's record of a request, `C`: a connection. */
export interface ConnectionTerms<E, C> extends DeadlineTerms, ResponseTerms {
  readonly handler: Handler<E>
  /** The connection is closed or detached. */
  readonly left: (connection: C) => void
  /** Set while another process takes the connections over: called between two requests, before the next one is read. */
  between?: ((connection: C) => void) | undefined
  /** For tests of the transitions. */
  readonly onPhase?: (from: ConnectionPhase, to: ConnectionPhase) => void
}

export function timeTerms(
  timeouts: ClientTimeouts,
): Pick<ConnectionTerms<unknown, unknown>, 'timeouts' | 'keepAliveSeconds'> {
  return {
    timeouts: { ...timeouts, pace: new BodyPace(timeouts.bodyPace) },
    keepAliveSeconds: Math.floor(timeouts.keepAliveMs / 1000),
  }
}
