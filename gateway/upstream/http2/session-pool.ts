import type { Deadlines } from '../../http/syntax/deadlines.ts'
import type { Health } from '../balancing/health.ts'
import type { Pool, PoolBounds } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import { UpstreamTls, type UpstreamTlsTerms } from '../upstream-tls.ts'
import { MAX_STREAMS, type SessionOwner, UpstreamSession } from './upstream-session.ts'

interface Options extends PoolBounds {
  readonly tls?: UpstreamTlsTerms | undefined
  readonly address: Address
  readonly clock: () => number
  readonly health: Health
  readonly deadlines: Deadlines
}

/** The sessions with one upstream. A second is opened only when the first has no place left. */
export class SessionPool implements Pool<UpstreamSession>, SessionOwner {
  readonly address: Address
  readonly tls: UpstreamTls | undefined
  readonly clock: () => number
  connectMs: number
  /** What the last session was allowed. Otherwise a burst that opens sessions would be turned away by each of them. */
  expectedStreams = MAX_STREAMS
  readonly #options: Options
  #maxConnections: number
  /** Those that take exchanges. */
  readonly #sessions: UpstreamSession[] = []
  /** Sockets that are not closed. */
  #sockets = 0
  #closing: (() => void) | undefined = undefined

  constructor(options: Options) {
    this.address = options.address
    this.tls = options.address.secure ? new UpstreamTls(options.address, options.tls) : undefined
    this.connectMs = options.connectMs
    this.clock = options.clock
    this.#options = options
    this.#maxConnections = options.maxConnections
  }

  bound({ connectMs, maxConnections }: PoolBounds): void {
    this.connectMs = connectMs
    this.#maxConnections = maxConnections
  }

  lease(fresh: boolean): UpstreamSession | undefined {
    const known = this.#sessions.find((session) => session.hasRoom)
    if (known !== undefined && !fresh) return known
    return this.#sessions.length < this.#maxConnections ? this.#connect() : known
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closing = resolve
      for (const session of [...this.#sessions]) session.retire()
      this.#settleClose()
    })
  }

  connected(streams: number): void {
    // Of one that allows none nothing is learned: each request would get a session of its own.
    if (streams > 0) this.expectedStreams = streams
    this.#options.health.connected()
  }

  connectFailed(): void {
    this.#options.health.connectFailed()
  }

  retired(session: UpstreamSession): void {
    this.#options.deadlines.remove(session)
    const at = this.#sessions.indexOf(session)
    if (at >= 0) this.#sessions.splice(at, 1)
  }

  closed(): void {
    this.#sockets -= 1
    this.#settleClose()
  }

  #connect(): UpstreamSession {
    const session = new UpstreamSession(this)
    this.#sockets += 1
    this.#options.deadlines.add(session)
    this.#sessions.push(session)
    // Requests that began before the close still go through.
    if (this.#closing !== undefined) process.nextTick(() => session.retire())
    return session
  }

  #settleClose(): void {
    if (this.#sockets === 0) this.#closing?.()
  }
}
