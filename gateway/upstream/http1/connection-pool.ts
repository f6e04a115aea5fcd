import type { Deadlines } from '../../http/syntax/deadlines.ts'
import type { Health } from '../balancing/health.ts'
import type { Pool, PoolBounds } from '../pooled-upstreams.ts'
import type { Address } from '../upstream-address.ts'
import { UpstreamTls, type UpstreamTlsTerms } from '../upstream-tls.ts'
import { type ConnectionOwner, Http1Connection } from './http1-connection.ts'

interface Options extends PoolBounds {
  readonly tls?: UpstreamTlsTerms | undefined
  readonly address: Address
  readonly clock: () => number
  readonly health: Health
  readonly deadlines: Deadlines
}

export class ConnectionPool implements Pool<Http1Connection>, ConnectionOwner {
  readonly address: Address
  readonly tls: UpstreamTls | undefined
  readonly clock: () => number
  connectMs: number
  readonly #options: Options
  #maxConnections: number
  /** The last used is used first, so that the others reach their idle timeout. */
  readonly #idle: Http1Connection[] = []
  /** Connecting, in use or idle. */
  #open = 0
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

  lease(fresh: boolean, nowMs: number): Http1Connection | undefined {
    while (!fresh) {
      const connection = this.#idle.at(-1)
      if (connection === undefined) break
      if (nowMs < connection.idleUntilMs) return this.#idle.pop()
      connection.destroy()
    }
    return this.#open < this.#maxConnections ? this.#connect() : this.#idle.pop()
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closing = resolve
      for (const connection of this.#idle.splice(0)) connection.destroy()
      this.#settleClose()
    })
  }

  connected(): void {
    this.#options.health.connected()
  }

  connectFailed(): void {
    this.#options.health.connectFailed()
  }

  free(connection: Http1Connection): void {
    if (this.#closing !== undefined) connection.destroy()
    else this.#idle.push(connection)
  }

  retired(connection: Http1Connection): void {
    this.#open -= 1
    this.#options.deadlines.remove(connection)
    const at = this.#idle.lastIndexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  closed(): void {
    this.#sockets -= 1
    this.#settleClose()
  }

  #connect(): Http1Connection {
    const connection = new Http1Connection(this)
    this.#open += 1
    this.#sockets += 1
    this.#options.deadlines.add(connection)
    return connection
  }

  #settleClose(): void {
    if (this.#sockets === 0) this.#closing?.()
  }
}
