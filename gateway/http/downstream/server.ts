import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import { Deadlines } from '../../http1/deadlines.ts'
import { Connection, type ConnectionTerms } from './connection.ts'

/** What a server and all of its connections go by. */
export type ServerTerms<E> = Omit<ConnectionTerms<E>, 'left'>

/** A listener for HTTP/1.1, and all the connections that it has accepted. */
export interface HttpServer {
  /** To be told where to listen. */
  readonly server: Server
  /** Accepts no more. Resolves when the last connection has ended. */
  close(): Promise<void>
  /** Of connections on which nothing is asked and nothing answered, and those that have not begun to ask. */
  closeIdleConnections(): void
  closeAllConnections(): void
}

/** The same behind TLS. */
export interface SecureHttpServer extends HttpServer {
  /** For connections to come. */
  setSecureContext: SecureServer['setSecureContext']
}

export function createHttpServer<E>(terms: ServerTerms<E>): HttpServer {
  const connections = new Connections(terms)
  // A client may close its half when it has asked, and still gets its answer.
  const server = createServer({ allowHalfOpen: true }, (socket) => connections.accept(socket))
  return httpServer(server, connections)
}

export function createSecureHttpServer<E>(terms: ServerTerms<E>, options: TlsOptions): SecureHttpServer {
  const connections = new Connections(terms)
  const handshakes = new Map<string, Socket>()
  const server = createSecureServer(options, (socket) => {
    handshakes.delete(nameOf(socket))
    // TLS knows no reset, and Node throws. Without a close_notify the client sees as well that something is missing.
    socket.resetAndDestroy = () => socket.destroy()
    connections.accept(socket)
  })
  server.on('connection', (socket: Socket) => {
    const name = nameOf(socket)
    handshakes.set(name, socket)
    socket.once('close', () => handshakes.delete(name))
  })
  // Beside HTTP, or before there was any: there is nobody to answer.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    // A connection in its handshake has asked for nothing: no drain waits for it.
    closeIdleConnections: () => {
      listener.closeIdleConnections()
      for (const socket of handshakes.values()) socket.destroy()
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
    close: () => new Promise((resolve) => server.close(() => resolve())),
    closeIdleConnections: () => connections.closeIdle(),
    closeAllConnections: () => connections.closeAll(),
  }
}

class Connections<E> {
  readonly #terms: ConnectionTerms<E>
  readonly #deadlines: Deadlines
  readonly #all = new Set<Connection<E>>()

  constructor(terms: ServerTerms<E>) {
    this.#terms = { ...terms, left: (connection) => this.#left(connection) }
    this.#deadlines = new Deadlines(terms.steadyClock)
  }

  accept(socket: Socket): void {
    const connection = new Connection(socket, this.#terms)
    this.#all.add(connection)
    this.#deadlines.add(connection)
  }

  closeIdle(): void {
    for (const connection of this.#all) if (connection.isIdle) connection.socket.destroy()
  }

  closeAll(): void {
    for (const { socket } of this.#all) socket.destroy()
  }

  #left(connection: Connection<E>): void {
    this.#all.delete(connection)
    this.#deadlines.remove(connection)
  }
}
