import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { Client } from 'undici'
import type { Health } from '../balancing/health.ts'
import type { Origin } from '../balancing/origin.ts'
import { correctHeads } from '../head-corrections.ts'
import { MAX_RESPONSE_HEAD_BYTES } from '../response-head.ts'
import type { Address } from '../upstream-address.ts'
import { type ConnectError, openConnection } from './undici-connection.ts'

const KEEP_ALIVE_MS = 4000
const require = createRequire(import.meta.url)

/** An upstream that undici speaks to. */
export interface LanedOrigin extends Origin {
  readonly lanes: Lanes
}

/** Room for one exchange at a time: an undici client, which connects when it is used and again when that has ended. */
export interface Lane {
  readonly client: Client
  /** The connection, also while it is being made; undefined before the first and when an upgrade took it away. */
  socket: Socket | undefined
  discarded: boolean
}

/**
 * The connections to one upstream. Scheduling is done here, over single clients: a call that undici's own pool finds
 * invalid makes it wait for ever for the client it gave the call to.
 */
export class Lanes {
  readonly #Client: typeof Client
  readonly #address: Address
  readonly #connectMs: number
  readonly #maxConnections: number
  readonly #health: Health
  readonly #all = new Set<Lane>()
  /** Free, perhaps with a connection; the last used is used first, so that the others can idle out. */
  readonly #warm: Lane[] = []
  /** Free, without a connection. */
  readonly #cold: Lane[] = []
  #leaving = 0
  #closed: (() => void) | undefined = undefined

  constructor(options: { address: Address; connectMs: number; maxConnections: number; health: Health }) {
    // Not imported: that would take 50 ms of the start also where no upstream is behind TLS.
    this.#Client = (require('undici') as typeof import('undici')).Client
    this.#address = options.address
    this.#connectMs = options.connectMs
    this.#maxConnections = options.maxConnections
    this.#health = options.health
  }

  /** @param fresh prefer a new connection to one that stands. @returns undefined when all connections are in use. */
  lease(fresh: boolean): Lane | undefined {
    while (!fresh) {
      const lane = this.#warm.pop()
      if (lane === undefined) break
      if (isAlive(lane)) return lane
      this.#cold.push(lane)
    }
    return this.#cold.pop() ?? (this.#all.size < this.#maxConnections ? this.#add() : this.#warm.pop())
  }

  /** Gives back a lane whose exchange is over, whether its connection stands or not. */
  release(lane: Lane): void {
    if (this.#closed !== undefined) this.#leave(lane)
    else this.#warm.push(lane)
  }

  /** Gives back a lane that can take no other request: client and connection go. */
  discard(lane: Lane): void {
    lane.discarded = true
    this.#all.delete(lane)
    this.#leaving += 1
    // undici may be in the middle of telling us about this very request.
    process.nextTick(() => {
      lane.socket?.destroy()
      lane.client.destroy(null, () => this.#left())
    })
  }

  /** Closes free connections at once and the others when they are given back; resolves when all are closed. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#closed = resolve
      for (const lane of [...this.#warm.splice(0), ...this.#cold.splice(0)]) this.#leave(lane)
      this.#settleClose()
    })
  }

  #add(): Lane {
    const lane: Lane = {
      client: new this.#Client('http://upstream', {
        connect: (_options, callback) => this.#connect(lane, callback),
        pipelining: 1,
        allowH2: false,
        useMilo: false,
        maxHeaderSize: MAX_RESPONSE_HEAD_BYTES,
        // Less than the 5 s after which a Node server closes an idle connection, and 2 s less than what a server
        // announces in Keep-Alive, so that a request never crosses the server's closing.
        keepAliveTimeout: KEEP_ALIVE_MS,
        keepAliveTimeoutThreshold: 2000,
        keepAliveMaxTimeout: 60_000,
        // undici's timers step by half a second: deadlines.ts keeps the time.
        headersTimeout: 0,
        bodyTimeout: 0,
      }),
      socket: undefined,
      discarded: false,
    }
    this.#all.add(lane)
    return lane
  }

  #connect(lane: Lane, callback: (...result: [null, Socket] | [Error, null]) => void): void {
    lane.socket = openConnection(this.#address, this.#connectMs, {
      connected: (socket) => {
        this.#health.alive()
        callback(null, socket)
        if (!lane.discarded) correctHeads(socket)
      },
      failed: (error: ConnectError) => {
        if (!lane.discarded) this.#health.failed()
        callback(error, null)
      },
    })
  }

  #leave(lane: Lane): void {
    this.#all.delete(lane)
    this.#leaving += 1
    lane.client.close(() => this.#left())
  }

  #left(): void {
    this.#leaving -= 1
    this.#settleClose()
  }

  #settleClose(): void {
    if (this.#all.size === 0 && this.#leaving === 0) this.#closed?.()
  }
}

function isAlive(lane: Lane): boolean {
  return lane.socket !== undefined && !lane.socket.destroyed
}
