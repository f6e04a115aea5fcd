import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import { BodyPace } from '../bodies/body-pace.ts'
import { withoutMapping } from '../rules/client-address.ts'
import { isOverShare } from '../rules/fair-share.ts'
import { networkOf } from '../rules/network.ts'
import { Deadlines } from '../syntax/deadlines.ts'
import { acceptQueued } from './accept-queue.ts'
import { Connection } from './client-connection.ts'
import {
  type AcceptedConnection,
  type Activity,
  type ClientNetwork,
  ClientNetworks,
} from './client-networks.ts'
import type { ClientTimeouts } from './connection-deadline.ts'
import type { ConnectionTerms } from './connection-terms.ts'

/** Beyond this part of all connections, an address may lose busy ones too. */
const EXCESS = 1 / 8

/** Enough for an honest client's TLS handshake from anywhere. */
const HANDSHAKE_MS = 1000

type Terms<E> = ConnectionTerms<E, Connection<E>>

/** What all servers of a thread and their connections share. */
export interface ServerTerms<E> extends Omit<Terms<E>, 'left' | 'between' | 'timeouts' | 'keepAliveSeconds'> {
  readonly timeouts: ClientTimeouts
  /** Most open connections, TLS handshakes and tunnels included. */
  readonly maxConnections: number
  /** Longest TLS handshake. */
  readonly handshakeMs: number
  /** Proxies stand for many clients: fair shares do not apply to them. */
  readonly isProxy: (address: string) => boolean
}

/** An accepted TCP connection, with or without TLS. */
class Accepted implements AcceptedConnection {
  slot = -1
  readonly peer: string
  readonly network: ClientNetwork
  activity: Activity
  readonly #socket: Socket

  constructor(socket: Socket, { peer, network, activity }: Pick<Accepted, 'peer' | 'network' | 'activity'>) {
    this.#socket = socket
    this.peer = peer
    this.network = network
    this.activity = activity
  }

  close(): void {
    this.#socket.destroy()
  }

  /** Also discards what the client has not taken. */
  reset(): void {
    this.#socket.resetAndDestroy()
  }
}

/** An HTTP/1.1 listener and all connections that it has accepted. */
export interface HttpServer {
  /** The caller tells it where to listen. */
  readonly server: Server
  /** Empties the accept queue, then stops listening. Resolves when the last connection has ended. */
  close(): Promise<void>
  /** @param quietMs how long a connection must have been idle; 0 when left out */
  closeIdleConnections(quietMs?: number): void
  closeAllConnections(): void
}

/** A connection on which no request has begun, and nothing is read. */
export interface ParkedConnection {
  readonly socket: Socket
  /** Serves it again. */
  goOn(): void
}

/** The same with TLS. */
export interface SecureHttpServer extends HttpServer {
  /** For new connections. */
  setSecureContext: SecureServer['setSecureContext']
}

export function createHttpServer<E>(connections: Connections<E>): HttpServer {
  // A client may close its half after its request, and still gets the response.
  const server = createServer({ allowHalfOpen: true }, (socket) => connections.accept(socket))
  return httpServer(server, connections)
}

/** Counts connections from accept on, so that endless handshakes count too. */
export function createSecureHttpServer<E>(
  connections: Connections<E>,
  options: TlsOptions,
): SecureHttpServer {
  /** Connections in their TLS handshake. */
  const handshakes = new Map<string, { readonly accepted: Accepted; readonly sinceMs: number }>()
  const tls = createSecureServer(options, (socket) => {
    const name = nameOf(socket)
    const accepted = handshakes.get(name)?.accepted
    handshakes.delete(name)
    // Node throws for a TLS socket: the TCP connection below is reset instead.
    socket.resetAndDestroy = () => {
      accepted?.reset()
      return socket.destroy()
    }
    // A connection that was reset meanwhile has no name any more.
    if (accepted === undefined) socket.destroy()
    else connections.serve(accepted, socket)
  })
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const accepted = connections.take(socket)
    if (accepted === undefined) return
    const name = nameOf(socket)
    handshakes.set(name, { accepted, sinceMs: performance.now() })
    socket.once('close', () => {
      if (handshakes.get(name)?.accepted === accepted) handshakes.delete(name)
    })
    tls.emit('connection', socket)
  })
  // No HTTP yet: there is nothing to respond to.
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    // A connection in its handshake has no request: a drain does not wait for it for long.
    closeIdleConnections: (quietMs) => {
      listener.closeIdleConnections(quietMs)
      const untilMs = performance.now() - HANDSHAKE_MS
      for (const { accepted, sinceMs } of handshakes.values()) if (sinceMs <= untilMs) accepted.close()
    },
    setSecureContext: (context) => tls.setSecureContext(context),
  }
}

function nameOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}

function httpServer<E>(server: Server, connections: Connections<E>): HttpServer {
  return {
    server,
    close: async () => {
      await acceptQueued(server)
      await new Promise<void>((resolve) => server.close(() => resolve()))
      // Those that came from another process do not belong to the server.
      await connections.emptied()
    },
    closeIdleConnections: (quietMs = 0) => connections.closeIdle(quietMs),
    closeAllConnections: () => connections.closeAll(),
  }
}

/** The connections of all listeners of a thread, under one bound. */
export class Connections<E> {
  /** Changes for all connections; each request goes on with the time-outs that it began with. */
  readonly #terms: { -readonly [Key in keyof Terms<E>]: Terms<E>[Key] }
  #max: number
  readonly #handshakeMs: number
  readonly #isProxy: (address: string) => boolean
  readonly #open: Deadlines<Connection<E>>
  readonly #networks = new ClientNetworks()
  readonly #whenClosed: (() => void)[] = []

  constructor({ maxConnections, handshakeMs, isProxy, ...terms }: ServerTerms<E>) {
    this.#max = maxConnections
    this.#handshakeMs = handshakeMs
    this.#isProxy = isProxy
    this.#terms = {
      ...terms,
      ...timeTerms(terms.timeouts),
      left: (connection) => this.#open.remove(connection),
    }
    this.#open = new Deadlines(terms.steadyClock)
  }

  /** Puts other bounds in force, for the next requests and connections. */
  bound(maxConnections: number, timeouts: ClientTimeouts): void {
    this.#max = maxConnections
    Object.assign(this.#terms, timeTerms(timeouts))
  }

  /** @param isLast the connection ends with its next response */
  accept(socket: Socket, isLast = false): void {
    const accepted = this.take(socket)
    if (accepted !== undefined) this.serve(accepted, socket, isLast)
  }

  /** Counts a connection until it is closed. @returns undefined when there was no room and it is closed. */
  take(socket: Socket): Accepted | undefined {
    const { remoteAddress } = socket
    const peer = remoteAddress === undefined ? undefined : withoutMapping(remoteAddress)
    const network = peer === undefined ? undefined : this.#networkOf(peer)
    // A client that has already reset has no address any more. What it sent must not be carried out: nobody waits for it.
    if (peer === undefined || network === undefined || !this.#makeRoom(network)) {
      socket.destroy()
      return undefined
    }
    const deadlineMs = this.#terms.steadyClock() + this.#handshakeMs
    const accepted = new Accepted(socket, { peer, network, activity: { isIdle: true, deadlineMs } })
    this.#networks.add(accepted)
    socket.once('close', () => {
      this.#networks.remove(accepted)
      for (const resolve of this.#whenClosed.splice(0)) resolve()
    })
    return accepted
  }

  /** @param socket the accepted one, or the TLS socket over it */
  serve(accepted: Accepted, socket: Socket, isLast = false): void {
    const connection = new Connection(socket, accepted, this.#terms)
    connection.isLast = isLast
    accepted.activity = connection
    this.#open.add(connection)
    // Its TLS handshake has ended after the others were parked.
    this.#terms.between?.(connection)
  }

  /**
   * Begins no more requests: each connection is detached and given to `take`, paused and with what has come of the next
   * request unshifted, now or when its present response is written.
   */
  park(take: (parked: ParkedConnection) => void): void {
    const detach = (connection: Connection<E>) =>
      take({ socket: connection.detach(), goOn: () => this.#goOn(connection) })
    this.#terms.between = detach
    this.#open.visitAll((connection) => {
      if (connection.isBetween) detach(connection)
    })
  }

  /** From now on connections are not parked. */
  unpark(): void {
    this.#terms.between = undefined
  }

  #goOn(before: Connection<E>): void {
    const again = new Connection(before.socket, before, this.#terms)
    this.#open.add(again)
    before.socket.resume()
    before.network.connections.visitAll((accepted) => {
      if (accepted.activity === before) accepted.activity = again
    })
  }

  /** Resolves when no connection is left. */
  async emptied(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#whenClosed.push(resolve))
  }

  /** Connections that are open, in their TLS handshake and parked ones too. */
  get size(): number {
    return this.#networks.size
  }

  closeIdle(quietMs: number): void {
    const sinceMs = this.#terms.steadyClock() - quietMs
    this.#open.visitAll((connection) => {
      if (connection.isIdle && connection.idleSinceMs <= sinceMs) connection.socket.destroy()
    })
  }

  closeAll(): void {
    this.#open.visitAll(({ socket }) => {
      socket.destroy()
    })
  }

  #networkOf(peer: string): ClientNetwork {
    const isProxy = this.#isProxy(peer)
    return this.#networks.networkNamed(isProxy ? peer : networkOf(peer), isProxy)
  }

  /** @returns false when the new connection must be closed itself. */
  #makeRoom(network: ClientNetwork): boolean {
    const networks = this.#networks
    const free = this.#max - networks.size
    const own = network.isProxy ? 0 : network.connections.size
    if (free > 0 && !isOverShare({ own, free, max: this.#max })) return true
    const leaving = free > 0 || own >= networks.largest ? networks.idleOf(network) : this.#leaving(own)
    if (leaving === undefined) return false
    networks.remove(leaving)
    leaving.close()
    return true
  }

  /** Which connection is closed for a new one of an address that has `own` already. */
  #leaving(own: number): AcceptedConnection | undefined {
    const networks = this.#networks
    const idle = networks.idleOfLargest()
    const isExcess = networks.largest > own + 1 && networks.largest > this.#max * EXCESS
    return idle ?? (isExcess ? networks.anyOfLargest() : undefined)
  }
}

function timeTerms(timeouts: ClientTimeouts): Pick<Terms<unknown>, 'timeouts' | 'keepAliveSeconds'> {
  return {
    timeouts: { ...timeouts, pace: new BodyPace(timeouts.bodyPace) },
    keepAliveSeconds: Math.floor(timeouts.keepAliveMs / 1000),
  }
}
