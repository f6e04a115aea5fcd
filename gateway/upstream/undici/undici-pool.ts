import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { Client } from 'undici'
import type { Health } from '../balancing/health.ts'
import { type ConnectError, openConnection } from '../open-connection.ts'
import type { Pool, PoolBounds } from '../pooled-upstreams.ts'
import { MAX_RESPONSE_HEAD_BYTES } from '../response-head.ts'
import type { Address } from '../upstream-address.ts'
import { correctHeads } from './head-corrections.ts'

const KEEP_ALIVE_MS = 4000
const require = createRequire(import.meta.url)

/** An undici client for one exchange at a time. It connects when it is used, and again after its connection has ended. */
export interface PooledClient {
  readonly client: Client
  /** The connection, also while it is being made; undefined before the first one and after an upgrade. */
  socket: Socket | undefined
  discarded: boolean
}

/**
 * The connections to one upstream, each an undici client of its own. undici's Pool is not used: a request that it finds
 * invalid blocks the client that got it for ever.
 */
export class UndiciPool implements Pool<PooledClient> {
  readonly #Client: typeof Client
  readonly #address: Address
  #connectMs: number
  #maxConnections: number
  readonly #health: Health
  readonly #all = new Set<PooledClient>()
  /** Free, perhaps connected; the last used is used first, so that the others reach their idle timeout. */
  readonly #warm: PooledClient[] = []
  /** Free, not connected. */
  readonly #cold: PooledClient[] = []
  #closingClients = 0
  #closed: (() => void) | undefined = undefined

  constructor(options: PoolBounds & { readonly address: Address; readonly health: Health }) {
    // Loaded here, because an import would cost 50 ms at start even where no upstream uses TLS.
    this.#Client = (require('undici') as typeof import('undici')).Client
    this.#address = options.address
    this.#connectMs = options.connectMs
    this.#maxConnections = options.maxConnections
    this.#health = options.health
  }

  lease(fresh: boolean): PooledClient | undefined {
    while (!fresh) {
      const pooled = this.#warm.pop()
      if (pooled === undefined) break
      if (pooled.socket?.destroyed === false) return pooled
      this.#cold.push(pooled)
    }
    return this.#cold.pop() ?? (this.#all.size < this.#maxConnections ? this.#add() : this.#warm.pop())
  }

  bound({ connectMs, maxConnections }: PoolBounds): void {
    this.#connectMs = connectMs
    this.#maxConnections = maxConnections
  }

  /** Gives back a client whose exchange is over, connected or not. */
  release(pooled: PooledClient): void {
    if (this.#closed !== undefined) this.#closeClient(pooled)
    else this.#warm.push(pooled)
  }

  /** Gives back a client that cannot be used again: it is destroyed with its connection. */
  discard(pooled: PooledClient): void {
    pooled.discarded = true
    this.#all.delete(pooled)
    this.#closingClients += 1
    // undici may be inside a callback of this request.
    process.nextTick(() => {
      pooled.socket?.destroy()
      pooled.client.destroy(null, () => this.#clientClosed())
    })
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closed = resolve
      for (const pooled of [...this.#warm.splice(0), ...this.#cold.splice(0)]) this.#closeClient(pooled)
      this.#settleClose()
    })
  }

  #add(): PooledClient {
    const pooled: PooledClient = {
      client: new this.#Client('http://upstream', {
        connect: (_options, callback) => this.#connect(pooled, callback),
        pipelining: 1,
        allowH2: false,
        useMilo: false,
        maxHeaderSize: MAX_RESPONSE_HEAD_BYTES,
        // Less than the 5 s after which a Node server closes an idle connection, and 2 s less than a server announces
        // in Keep-Alive, so that no request meets the closing.
        keepAliveTimeout: KEEP_ALIVE_MS,
        keepAliveTimeoutThreshold: 2000,
        keepAliveMaxTimeout: 60_000,
        // undici's timers have a resolution of half a second; deadlines.ts is used instead.
        headersTimeout: 0,
        bodyTimeout: 0,
      }),
      socket: undefined,
      discarded: false,
    }
    this.#all.add(pooled)
    return pooled
  }

  #connect(pooled: PooledClient, callback: (...result: [null, Socket] | [Error, null]) => void): void {
    pooled.socket = openConnection(this.#address, this.#connectMs, {
      connected: (socket) => {
        this.#health.connected()
        callback(null, socket)
        if (!pooled.discarded) correctHeads(socket)
      },
      failed: (error: ConnectError) => {
        if (!pooled.discarded) this.#health.connectFailed()
        callback(error, null)
      },
    })
  }

  #closeClient(pooled: PooledClient): void {
    this.#all.delete(pooled)
    this.#closingClients += 1
    pooled.client.close(() => this.#clientClosed())
  }

  #clientClosed(): void {
    this.#closingClients -= 1
    this.#settleClose()
  }

  #settleClose(): void {
    if (this.#all.size === 0 && this.#closingClients === 0) this.#closed?.()
  }
}
