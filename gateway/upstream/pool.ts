import type { Deadlines, Timed } from '../edge/syntax/deadlines.ts'
import type { Health } from './balancing/health.ts'
import type { ConnectionTarget } from './open-connection.ts'
import type { Address } from './upstream-address.ts'
import { UpstreamTls, type UpstreamTlsTerms } from './upstream-tls.ts'

export interface PoolBounds {
  readonly connectMs: number
  /** Connecting, in use or idle. */
  readonly maxConnections: number
}

export interface PoolOptions extends PoolBounds {
  readonly tls?: UpstreamTlsTerms | undefined
  readonly address: Address
  readonly clock: () => number
  readonly health: Health
  readonly deadlines: Deadlines
}

export abstract class Pool<Connection extends Timed> implements ConnectionTarget {
  readonly address: Address
  readonly tls: UpstreamTls | undefined
  readonly clock: () => number
  connectMs: number
  protected maxConnections: number
  readonly health: Health
  protected readonly deadlines: Deadlines
  #sockets = 0
  #closing: (() => void) | undefined = undefined

  constructor(options: PoolOptions) {
    this.address = options.address
    this.tls = options.address.secure ? new UpstreamTls(options.address, options.tls) : undefined
    this.connectMs = options.connectMs
    this.clock = options.clock
    this.maxConnections = options.maxConnections
    this.health = options.health
    this.deadlines = options.deadlines
  }

  /** @param fresh true prefers a new connection to an idle one @returns undefined when all are in use */
  abstract lease(fresh: boolean, nowMs: number): Connection | undefined

  /** Closes idle connections at once, others when they are free. */
  protected abstract retireAll(): void

  /** Bounds connections that are made from now on. */
  bound({ connectMs, maxConnections }: PoolBounds): void {
    this.connectMs = connectMs
    this.maxConnections = maxConnections
  }

  /** Resolves when all connections are closed. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closing = resolve
      this.retireAll()
      this.#settleClose()
    })
  }

  connectionClosed(): void {
    this.#sockets -= 1
    this.#settleClose()
  }

  protected get isClosing(): boolean {
    return this.#closing !== undefined
  }

  protected opened(connection: Connection): Connection {
    this.#sockets += 1
    this.deadlines.add(connection)
    return connection
  }

  #settleClose(): void {
    if (this.#sockets === 0) this.#closing?.()
  }
}
