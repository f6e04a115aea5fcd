import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import { Deadlines } from '../../http1/deadlines.ts'
import { withoutMapping } from '../address.ts'
import { acceptQueued } from './accept-queue.ts'
import { BodyPace } from './body-pace.ts'
import { Connection, type ConnectionTerms } from './connection.ts'

/** Within it a client that means to ask something has shaken hands, however far away it is. */
const HANDSHAKE_MS = 1000

/** What servers and all of their connections go by. */
export interface ServerTerms<E> extends Omit<ConnectionTerms<E>, 'left' | 'bodyPace'> {
  /** More are not open at once: the one that has been idle for the longest time goes for a new one, or else the new one. */
  readonly maxConnections: number
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

export function createSecureHttpServer<E>(
  connections: Connections<E>,
  options: TlsOptions,
): SecureHttpServer {
  const handshakes = new Map<string, { readonly socket: Socket; readonly sinceMs: number }>()
  const server = createSecureServer(options, (socket) => {
    handshakes.delete(nameOf(socket))
    // TLS knows no reset, and Node throws. Without a close_notify the client sees as well that something is missing.
    socket.resetAndDestroy = () => socket.destroy()
    connections.accept(socket)
  })
  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket)
    handshakes.set(name, { socket, sinceMs: performance.now() })
    socket.once('close', () => handshakes.delete(name))
  })
  // Beside HTTP, or before there was any: there is nobody to answer.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    // A connection in its handshake has asked for nothing: no drain waits for it for long.
    closeIdleConnections: (quietMs) => {
      listener.closeIdleConnections(quietMs)
      const untilMs = performance.now() - HANDSHAKE_MS
      for (const { socket, sinceMs } of handshakes.values()) if (sinceMs <= untilMs) socket.destroy()
    },
    setSecureContext: (context) => server.setSecureContext(context),
  }
}

function nameOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
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
  readonly #open: Deadlines<Connection<E>>

  constructor({ maxConnections, ...terms }: ServerTerms<E>) {
    this.#max = maxConnections
    this.#terms = {
      ...terms,
      bodyPace: new BodyPace(terms.patience.bodyPace),
      left: (connection) => this.#open.remove(connection),
    }
    this.#open = new Deadlines(terms.steadyClock)
  }

  accept(socket: Socket): void {
    const { remoteAddress } = socket
    // The system no longer tells who it was of a client that has reset already: nobody is there to be answered, and what
    // it sent must not be carried out for nobody.
    if (remoteAddress === undefined || (this.#open.size >= this.#max && !this.#makeRoom())) socket.destroy()
    else this.#open.add(new Connection(socket, withoutMapping(remoteAddress), this.#terms))
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

  /** @returns false when none is idle. */
  #makeRoom(): boolean {
    let longest: Connection<E> | undefined
    this.#open.visitAll((connection) => {
      if (!connection.isIdle || connection.socket.destroyed) return
      if (longest === undefined || connection.deadlineMs < longest.deadlineMs) longest = connection
    })
    longest?.socket.destroy()
    return longest !== undefined
  }
}
