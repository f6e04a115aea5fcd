import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { withoutMapping } from '../rules/client-address.ts'
import { networkOf } from '../rules/network.ts'
import { Deadlines } from '../syntax/deadlines.ts'
import { Connection } from './client-connection.ts'
import { type AcceptedConnection, ClientNetworks } from './client-networks.ts'
import type { DetachedSocket } from './client-response.ts'
import type { ClientTimeouts, HeadBounds } from './connection-deadline.ts'
import type { ConnectionTerms, Http2Protocol, ServedConnection } from './connection-terms.ts'

type Terms<E> = ConnectionTerms<E, Connection<E>>

export interface ServerTerms<E>
  extends Omit<Terms<E>, 'networks' | 'isLeaving' | 'left' | 'between' | 'toHttp2'> {
  /** Limit of open connections, TLS handshakes and tunnels included. */
  readonly maxConnections: number
  readonly handshakeMs: number
  readonly isProxy: (address: string) => boolean
  /** Undefined when nobody may speak HTTP/2. */
  readonly http2?: Http2Protocol | undefined
  readonly isPlainHttp2?: boolean
  readonly isLeaving?: () => boolean
}

/** A connection between two requests, from which nothing is read. */
export interface ParkedConnection extends DetachedSocket {
  goOn(): void
}

/** The connections of all listeners, under one bound. */
export class Connections<E> {
  /** Shared by all connections and changed in place. */
  readonly #terms: { -readonly [Key in keyof Terms<E>]: Terms<E>[Key] }
  readonly #handshakeMs: number
  readonly #isProxy: (address: string) => boolean
  readonly #http2: Http2Protocol | undefined
  readonly #open: Deadlines<Connection<E> | ServedConnection>
  readonly #networks: ClientNetworks
  readonly #whenClosed: (() => void)[] = []

  constructor({
    maxConnections,
    handshakeMs,
    isProxy,
    http2,
    isPlainHttp2 = false,
    isLeaving = () => false,
    ...terms
  }: ServerTerms<E>) {
    this.#networks = new ClientNetworks(maxConnections)
    this.#handshakeMs = handshakeMs
    this.#isProxy = isProxy
    this.#http2 = http2
    this.#open = new Deadlines(terms.steadyClock)
    const left: Terms<E>['left'] = (connection) => this.#open.remove(connection)
    const toHttp2: Terms<E>['toHttp2'] =
      isPlainHttp2 && http2 ? (connection) => this.#toHttp2(http2, connection) : undefined
    this.#terms = { ...terms, networks: this.#networks, isLeaving, left, toHttp2 }
  }

  bound(maxConnections: number, timeouts: ClientTimeouts, head: HeadBounds): void {
    this.#networks.max = maxConnections
    this.#terms.timeouts = timeouts
    this.#terms.head = head
  }

  /** @param isLast the connection ends with its next response */
  accept(socket: Socket, isLast = false): void {
    const accepted = this.take(socket)
    if (accepted !== undefined) this.serve(accepted, socket, isLast)
  }

  /** Counts a connection until it is closed. @returns undefined when it was closed instead */
  take(socket: Socket): AcceptedConnection | undefined {
    const peer = withoutMapping(socket.remoteAddress ?? '')
    const isProxy = this.#isProxy(peer)
    const network = this.#networks.networkNamed(isProxy ? peer : networkOf(peer), isProxy)
    // A client that has reset the connection has no address. Nobody waits for its request, which must not begin.
    if (peer === '' || !this.#networks.makeRoom(network)) {
      socket.destroy()
      return undefined
    }
    const deadlineMs = this.#terms.steadyClock() + this.#handshakeMs
    const accepted = { slot: -1, socket, peer, network, activity: { isIdle: true, deadlineMs } }
    this.#networks.add(accepted)
    socket.once('close', () => {
      this.#networks.remove(accepted)
      for (const resolve of this.#whenClosed.splice(0)) resolve()
    })
    return accepted
  }

  serve(accepted: AcceptedConnection, socket: Socket, isLast = false): void {
    const isHttp2 = !isLast && (socket as TLSSocket).alpnProtocol === 'h2'
    if (isHttp2 && this.#http2 !== undefined) this.#serveHttp2(this.#http2, accepted, socket)
    else this.#serveHttp1(accepted, socket, isLast)
  }

  #serveHttp1(accepted: AcceptedConnection, socket: Socket, isLast: boolean): Connection<E> {
    const connection = new Connection(socket, accepted, this.#terms)
    connection.isLast = isLast
    accepted.activity = connection
    this.#open.add(connection)
    // `between` may have been set during the TLS handshake of this connection.
    this.#terms.between?.(connection)
    return connection
  }

  #serveHttp2(http2: Http2Protocol, accepted: AcceptedConnection, socket: Socket): void {
    const connection = http2(socket, accepted, this.#terms)
    accepted.activity = connection
    this.#open.add(connection)
    if (this.#terms.between !== undefined) connection.retire()
  }

  /** Serves HTTP/2 without TLS (RFC 9113 section 3.3). */
  #toHttp2(http2: Http2Protocol, before: Connection<E>): void {
    const { socket } = before.detach()
    this.#serveHttp2(http2, before.accepted, socket)
    socket.resume()
  }

  /** Gives each HTTP/1.1 connection to `take`, now or after its response; retires all others. No new request begins. */
  park(take: (parked: ParkedConnection) => void): void {
    const detach = (connection: Connection<E>) => {
      const { socket, unread } = connection.detach()
      take({ socket, unread, goOn: () => this.#goOn(connection, unread) })
    }
    this.#terms.between = detach
    this.#open.visitAll((connection) => {
      if (!(connection instanceof Connection)) connection.retire()
      else if (connection.isBetween) detach(connection)
    })
  }

  unpark(): void {
    this.#terms.between = undefined
  }

  #goOn({ socket, accepted, isFresh, isLast }: Connection<E>, unread: Buffer | undefined): void {
    // A closed socket emits no further `close`.
    if (socket.destroyed) return
    const again = this.#serveHttp1(accepted, socket, isLast)
    again.isFresh = isFresh
    socket.resume()
    if (unread !== undefined) again.received(unread, unread.length)
    if (socket.readableEnded) again.clientEnded()
  }

  async emptied(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#whenClosed.push(resolve))
  }

  /** The number of open connections, parked ones and TLS handshakes included. */
  get size(): number {
    return this.#networks.size
  }

  /** @param quietMs how long an HTTP/1.1 connection must have been idle; all HTTP/2 connections retire */
  closeIdle(quietMs: number): void {
    const sinceMs = this.#terms.steadyClock() - quietMs
    this.#open.visitAll((connection) => {
      if (!(connection instanceof Connection)) connection.retire()
      else if (connection.isIdle && connection.idleSinceMs <= sinceMs) connection.socket.destroy()
    })
  }

  closeAll(): void {
    this.#open.visitAll(({ socket }) => {
      socket.destroy()
    })
  }
}
