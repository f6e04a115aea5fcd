import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { withoutMapping } from '../rules/client-address.ts'
import { isOverShare } from '../rules/fair-share.ts'
import { networkOf } from '../rules/network.ts'
import { Deadlines } from '../syntax/deadlines.ts'
import { Connection } from './client-connection.ts'
import {
  type AcceptedConnection,
  type Activity,
  type ClientNetwork,
  ClientNetworks,
} from './client-networks.ts'
import type { ClientTimeouts, HeadBounds } from './connection-deadline.ts'
import { type ConnectionTerms, timeTerms } from './connection-terms.ts'
import type { Http2Protocol, ServedConnection, StreamRoom, StreamTerms } from './served-connection.ts'

/** Beyond this part of all connections, an address may lose busy ones too. */
const EXCESS = 1 / 8
/** Streams that are refused and wait for their records, besides the common room. */
const MAX_REFUSED_STREAMS = 256

type Terms<E> = ConnectionTerms<E, Connection<E>>

export interface ServerTerms<E> extends Omit<Terms<E>, 'left' | 'between' | 'timeouts' | 'keepAliveSeconds'> {
  readonly timeouts: ClientTimeouts
  /** Most open connections, TLS handshakes and tunnels included. */
  readonly maxConnections: number
  /** Longest TLS handshake. */
  readonly handshakeMs: number
  /** Proxies stand for many clients: fair shares do not apply to them. */
  readonly isProxy: (address: string) => boolean
  /** Undefined: nobody may speak it. */
  readonly http2?: Http2Protocol | undefined
  /** Clients without TLS may speak it, too. */
  readonly isPlainHttp2?: boolean
  /** The gateway is stopping. */
  readonly isLeaving?: () => boolean
}

/** An accepted TCP connection, with or without TLS. */
export class Accepted implements AcceptedConnection {
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

/** A connection on which no request has begun, and nothing is read. */
export interface ParkedConnection {
  readonly socket: Socket
  /** What has come of the next requests, where its client has closed its half; otherwise the socket has it. */
  readonly unread: Buffer | undefined
  goOn(): void
}

/** The connections of all listeners, under one bound. */
export class Connections<E> {
  /** Changes for all connections; each request goes on with the time-outs that it began with. */
  readonly #terms: { -readonly [Key in keyof Terms<E>]: Terms<E>[Key] }
  #max: number
  readonly #handshakeMs: number
  readonly #isProxy: (address: string) => boolean
  readonly #http2: Http2Protocol | undefined
  readonly #isPlainHttp2: boolean
  readonly #streamTerms: StreamTerms<E>
  readonly #open: Deadlines<Connection<E> | ServedConnection>
  readonly #networks = new ClientNetworks()
  readonly #whenClosed: (() => void)[] = []
  /** Streams of all connections of HTTP/2 that are under way without a place. */
  #refusedStreams = 0

  constructor({
    maxConnections,
    handshakeMs,
    isProxy,
    http2,
    isPlainHttp2 = false,
    isLeaving = () => false,
    ...terms
  }: ServerTerms<E>) {
    this.#max = maxConnections
    this.#handshakeMs = handshakeMs
    this.#isProxy = isProxy
    this.#http2 = http2
    this.#isPlainHttp2 = isPlainHttp2
    this.#terms = {
      ...terms,
      ...timeTerms(terms.timeouts),
      left: (connection) => this.#open.remove(connection),
    }
    this.#open = new Deadlines(terms.steadyClock)
    this.#streamTerms = this.#termsOfStreams(isLeaving)
  }

  #termsOfStreams(isLeaving: () => boolean): StreamTerms<E> {
    const terms = this.#terms
    return {
      handler: terms.handler,
      clock: terms.clock,
      steadyClock: terms.steadyClock,
      get timeouts() {
        return terms.timeouts
      },
      get head() {
        return terms.head
      },
      room: this.#streamRoom(),
      isLeaving,
      left: (connection) => this.#open.remove(connection),
    }
  }

  /** A stream takes as much of the common room as a connection of HTTP/1.1, and each address has the same share of it. */
  #streamRoom(): StreamRoom {
    const networks = this.#networks
    return {
      take: (network) => {
        if (!this.#hasRoom(network)) return false
        networks.addStream(network)
        return true
      },
      release: (network) => networks.removeStream(network),
      refuse: () => {
        if (this.#refusedStreams >= MAX_REFUSED_STREAMS) return false
        this.#refusedStreams++
        return true
      },
      refused: () => {
        this.#refusedStreams--
      },
    }
  }

  /** Whether one more connection or stream of it has a place without another that leaves. */
  #hasRoom(network: ClientNetwork): boolean {
    const own = network.isProxy ? 0 : network.part
    const free = this.#max - this.#networks.taken
    return free > 0 && !isOverShare({ own, free, max: this.#max })
  }

  /** Puts other bounds in force, for the next requests and connections. */
  bound(maxConnections: number, timeouts: ClientTimeouts, head: HeadBounds): void {
    this.#max = maxConnections
    Object.assign(this.#terms, timeTerms(timeouts), { head })
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
    const http2 = isLast ? undefined : this.#http2
    if (http2 === undefined) this.#serveHttp1(accepted, socket, isLast)
    else if ((socket as TLSSocket).alpnProtocol === 'h2') this.#serveHttp2(http2, accepted, socket)
    else if (!this.#isPlainHttp2 || 'encrypted' in socket) this.#serveHttp1(accepted, socket, false)
    else
      this.#watch(
        accepted,
        http2.recognise(socket, this.#streamTerms, (isHttp2) => {
          if (isHttp2) this.#serveHttp2(http2, accepted, socket)
          else this.#serveHttp1(accepted, socket, false)
        }),
      )
  }

  #serveHttp1(accepted: Accepted, socket: Socket, isLast: boolean): Connection<E> {
    const connection = new Connection(socket, accepted, this.#terms)
    connection.isLast = isLast
    accepted.activity = connection
    this.#open.add(connection)
    // Its TLS handshake has ended after the others were parked.
    this.#terms.between?.(connection)
    return connection
  }

  #serveHttp2(http2: Http2Protocol, accepted: Accepted, socket: Socket): void {
    this.#watch(accepted, http2.serve(socket, accepted, this.#streamTerms))
  }

  #watch(accepted: Accepted, connection: ServedConnection): void {
    accepted.activity = connection
    this.#open.add(connection)
    if (this.#terms.between !== undefined) connection.retire()
  }

  /**
   * Begins no more requests: each connection is detached and given to `take`, paused and with what has come of the next
   * request unshifted, now or when its present response is written.
   */
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

  /** From now on connections are not parked. */
  unpark(): void {
    this.#terms.between = undefined
  }

  #goOn(before: Connection<E>, unread: Buffer | undefined): void {
    const { socket } = before
    // Nothing will tell any more that it has closed.
    if (socket.destroyed) return
    let again: Connection<E> | undefined
    before.network.connections.visitAll((accepted) => {
      if (accepted.activity !== before) return
      // Its client may still say that it speaks HTTP/2.
      if (before.isFresh && !socket.readableEnded) this.serve(accepted as Accepted, socket, before.isLast)
      else again = this.#serveHttp1(accepted as Accepted, socket, before.isLast)
    })
    socket.resume()
    if (unread !== undefined) again?.received(unread, unread.length)
    if (socket.readableEnded) again?.clientEnded()
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
      if (!(connection instanceof Connection)) connection.retire()
      else if (connection.isIdle && connection.idleSinceMs <= sinceMs) connection.socket.destroy()
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
    if (this.#hasRoom(network)) return true
    const networks = this.#networks
    const own = network.isProxy ? 0 : network.part
    const isFull = networks.taken >= this.#max
    const leaving = !isFull || own >= networks.largest ? networks.idleOf(network) : this.#leaving(own)
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
