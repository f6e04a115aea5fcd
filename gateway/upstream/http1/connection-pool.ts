import { Pool } from '../pool.ts'
import { type ConnectionOwner, Http1Connection } from './http1-connection.ts'

export class ConnectionPool extends Pool<Http1Connection> implements ConnectionOwner {
  /** The last used is used first, so that the others reach their idle timeout. */
  readonly #idle: Http1Connection[] = []
  /** Connecting, in use or idle. */
  #open = 0

  lease(fresh: boolean, nowMs: number): Http1Connection | undefined {
    while (!fresh) {
      const connection = this.#idle.at(-1)
      if (connection === undefined) break
      if (nowMs < connection.idleUntilMs) return this.#idle.pop()
      connection.destroy()
    }
    return this.#open < this.maxConnections ? this.#connect() : this.#idle.pop()
  }

  connected(): void {
    this.health.connected()
  }

  free(connection: Http1Connection): void {
    if (this.isClosing) connection.destroy()
    else this.#idle.push(connection)
  }

  retired(connection: Http1Connection): void {
    this.#open -= 1
    this.deadlines.remove(connection)
    const at = this.#idle.lastIndexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  protected retireAll(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy()
  }

  #connect(): Http1Connection {
    this.#open += 1
    return this.opened(new Http1Connection(this))
  }
}
