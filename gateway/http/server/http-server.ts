import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import { BodyPace } from '../bodies/body-pace.ts'
import { withoutMapping } from '../rules/client-address.ts'
import { isOverShare } from '../rules/fair-share.ts'
import { networkOf } from '../rules/network.ts'
import { Deadlines } from '../syntax/deadlines.ts'
import { acceptQueued } from './accept-queue.ts'
import { Connection, type ConnectionTerms } from './client-connection.ts'
import { type Holder, Holders, type Occupant, type Place } from './connection-holders.ts'

/** Part of all connections beyond which one address may lose those on which something is asked. */
const EXCESS = 1 / 8

/** Within it a client that means to ask something has shaken hands, however far away it is. */
const HANDSHAKE_MS = 1000

/** What servers and all of their connections go by. */
export interface ServerTerms<E> extends Omit<ConnectionTerms<E>, 'left' | 'bodyPace' | 'keepAliveSeconds'> {
  /** More are not open at once, handshakes and tunnels included. */
  readonly maxConnections: number
  /** For the handshake of TLS. */
  readonly handshakeMs: number
  /** Who stands for many clients: no share is held against them. */
  readonly isProxy: (address: string) => boolean
}

/** A connection as it was accepted, before or behind TLS. */
class Accepted implements Place {
  slot = -1
  readonly peer: string
  readonly holder: Holder
  occupant: Occupant
  readonly #socket: Socket

  constructor(socket: Socket, { peer, holder, occupant }: Pick<Accepted, 'peer' | 'holder' | 'occupant'>) {
    this.#socket = socket
    this.peer = peer
    this.holder = holder
    this.occupant = occupant
  }

  close(): void {
    this.#socket.destroy()
  }

  /** What the client has not taken is not kept for it. */
  reset(): void {
    this.#socket.resetAndDestroy()
  }
}

/** A connection that is not yet behind TLS. */
interface Handshake {
  readonly accepted: Accepted
  readonly sinceMs: number
}

/** A listener for HTTP/1.1, and all the connections that it has accepted. */
export interface HttpServer {
  /** To be told where to listen. */
  readonly server: Server
  /** Accepts whoever waits in the accept queue, and nobody after that. Resolves when the last connection has ended. */
  close(): Promise<void>
  /** Of connections on which nothing has been asked and no response given for so long; at once when left out. */
  closeIdleConnections(quietMs?: number): void
  closeAllConnections(): void
}

/** The same behind TLS. */
export interface SecureHttpServer extends HttpServer {
  /** For connections to come. */
  setSecureContext: SecureServer['setSecureContext']
}

export function createHttpServer<E>(connections: Connections<E>): HttpServer {
  // A client may close its half when it has asked, and still gets its answer.
  const server = createServer({ allowHalfOpen: true }, (socket) => connections.accept(socket))
  return httpServer(server, connections)
}

/** Connections are counted from accept on, so that those whose handshake never ends are too. */
export function createSecureHttpServer<E>(
  connections: Connections<E>,
  options: TlsOptions,
): SecureHttpServer {
  const handshakes = new Map<string, Handshake>()
  const tls = createSecureServer(options, (socket) => {
    const name = nameOf(socket)
    const accepted = handshakes.get(name)?.accepted
    handshakes.delete(name)
    // TLS knows no reset, and Node throws: it is the connection below that is reset.
    socket.resetAndDestroy = () => {
      accepted?.reset()
      return socket.destroy()
    }
    // One that was reset meanwhile has no name any more.
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
  // Beside HTTP, or before there was any: there is nobody to answer.
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    // A connection in its handshake has asked for nothing: no drain waits for it for long.
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
    },
    closeIdleConnections: (quietMs = 0) => connections.closeIdle(quietMs),
    closeAllConnections: () => connections.closeAll(),
  }
}

/** Of all listeners of a thread: what they may have open is common. */
export class Connections<E> {
  readonly #terms: ConnectionTerms<E>
  readonly #max: number
  readonly #handshakeMs: number
  readonly #isProxy: (address: string) => boolean
  readonly #open: Deadlines<Connection<E>>
  readonly #holders = new Holders()

  constructor({ maxConnections, handshakeMs, isProxy, ...terms }: ServerTerms<E>) {
    this.#max = maxConnections
    this.#handshakeMs = handshakeMs
    this.#isProxy = isProxy
    this.#terms = {
      ...terms,
      bodyPace: new BodyPace(terms.timeouts.bodyPace),
      keepAliveSeconds: Math.floor(terms.timeouts.keepAliveMs / 1000),
      left: (connection) => this.#open.remove(connection),
    }
    this.#open = new Deadlines(terms.steadyClock)
  }

  accept(socket: Socket): void {
    const accepted = this.take(socket)
    if (accepted !== undefined) this.serve(accepted, socket)
  }

  /** Counts a connection until it is closed. @returns undefined when it is closed at once: there is no room for it. */
  take(socket: Socket): Accepted | undefined {
    const { remoteAddress } = socket
    const peer = remoteAddress === undefined ? undefined : withoutMapping(remoteAddress)
    const holder = peer === undefined ? undefined : this.#holderOf(peer)
    // The system no longer tells who it was of a client that has reset already: nobody is there to be answered, and what
    // it sent must not be carried out for nobody.
    if (peer === undefined || holder === undefined || !this.#makeRoom(holder)) {
      socket.destroy()
      return undefined
    }
    const deadlineMs = this.#terms.steadyClock() + this.#handshakeMs
    const accepted = new Accepted(socket, { peer, holder, occupant: { isIdle: true, deadlineMs } })
    this.#holders.add(accepted)
    socket.once('close', () => this.#holders.remove(accepted))
    return accepted
  }

  /** @param socket what is spoken on: the accepted one, or TLS over it */
  serve(accepted: Accepted, socket: Socket): void {
    const connection = new Connection(socket, accepted, this.#terms)
    accepted.occupant = connection
    this.#open.add(connection)
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

  #holderOf(peer: string): Holder {
    const isProxy = this.#isProxy(peer)
    return this.#holders.holderOf(isProxy ? peer : networkOf(peer), isProxy)
  }

  /** @returns false when the newcomer has to go itself. */
  #makeRoom(holder: Holder): boolean {
    const holders = this.#holders
    const free = this.#max - holders.size
    const own = holder.isProxy ? 0 : holder.connections.size
    if (free > 0 && !isOverShare({ own, free, max: this.#max })) return true
    const leaving = free > 0 || own >= holders.largest ? holders.idleOf(holder) : this.#leaving(own)
    if (leaving === undefined) return false
    holders.remove(leaving)
    leaving.close()
    return true
  }

  /** Who goes for one of an address that has `own` connections. */
  #leaving(own: number): Place | undefined {
    const holders = this.#holders
    const idle = holders.idleOfLargest()
    const isExcess = holders.largest > own + 1 && holders.largest > this.#max * EXCESS
    return idle ?? (isExcess ? holders.anyOfLargest() : undefined)
  }
}
