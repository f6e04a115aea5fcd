import { Pool } from '../pool.ts'
import { MAX_STREAMS, type SessionOwner, UpstreamSession } from './upstream-session.ts'

/** The sessions with one upstream. A second is opened only when the first has no place left. */
export class SessionPool extends Pool<UpstreamSession> implements SessionOwner {
  /** What the last session was allowed. Otherwise a burst that opens sessions would be turned away by each of them. */
  expectedStreams = MAX_STREAMS
  /** Those that take exchanges. */
  readonly #sessions: UpstreamSession[] = []

  lease(fresh: boolean): UpstreamSession | undefined {
    const known = this.#sessions.find((session) => session.hasRoom)
    if (known !== undefined && !fresh) return known
    return this.#sessions.length < this.maxConnections ? this.#connect() : known
  }

  connected(streams: number): void {
    // Of one that allows none nothing is learned: each request would get a session of its own.
    if (streams > 0) this.expectedStreams = streams
    this.health.connected()
  }

  retired(session: UpstreamSession): void {
    this.deadlines.remove(session)
    const at = this.#sessions.indexOf(session)
    if (at >= 0) this.#sessions.splice(at, 1)
  }

  protected retireAll(): void {
    for (const session of [...this.#sessions]) session.retire()
  }

  #connect(): UpstreamSession {
    const session = this.opened(new UpstreamSession(this))
    this.#sessions.push(session)
    // Requests that began before the close still go through.
    if (this.isClosing) process.nextTick(() => session.retire())
    return session
  }
}
