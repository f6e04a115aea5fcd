import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import type { AcceptedConnection } from './client-networks.ts'
import type { Connections } from './connections.ts'
import { acceptClientSockets } from './sockets/client-socket.ts'

/** How long a drain waits for TLS handshakes, which have no request yet. */
const HANDSHAKE_MS = 1000

/** The system's queue counts as empty after more turns of the loop than this without a new connection. */
const QUIET_TURNS = 3
/** Longest time to empty the queue; `LEAST_TURNS` turns may take longer on a busy machine. */
const LONGEST_MS = 500
const LEAST_TURNS = 100

export interface HttpServer {
  /** Bound to an address by the caller. */
  readonly server: Server
  /** Empties the accept queue, stops listening, and resolves when the last connection has ended. */
  close(): Promise<void>
  /** @param quietMs how long a connection must have been idle; default 0 */
  closeIdleConnections(quietMs?: number): void
  closeAllConnections(): void
}

export interface SecureHttpServer extends HttpServer {
  /** Does the handshakes; does not listen. */
  readonly tls: SecureServer
}

export function createHttpServer<E>(connections: Connections<E>): HttpServer {
  // A client that closes its half after its request still gets the response.
  const server = createServer({ allowHalfOpen: true }, (socket) => connections.accept(socket))
  acceptClientSockets(server)
  return httpServer(server, connections)
}

/** Counts connections from accept on, so that endless handshakes count too. */
export function createSecureHttpServer<E>(
  connections: Connections<E>,
  options: TlsOptions,
): SecureHttpServer {
  const handshakes = new Map<string, { readonly accepted: AcceptedConnection; readonly sinceMs: number }>()
  const tls = createSecureServer(options, (socket) => {
    const name = nameOf(socket)
    const accepted = handshakes.get(name)?.accepted
    handshakes.delete(name)
    socket.allowHalfOpen = true
    // Node's own method throws for a TLS socket, so this resets the TCP connection below.
    socket.resetAndDestroy = () => {
      accepted?.socket.resetAndDestroy()
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
    // The TLS socket inherits this: a client that closes its half in the handshake has gone.
    socket.allowHalfOpen = false
    tls.emit('connection', socket)
  })
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    tls,
    closeIdleConnections: (quietMs) => {
      listener.closeIdleConnections(quietMs)
      const untilMs = performance.now() - HANDSHAKE_MS
      for (const { accepted, sinceMs } of handshakes.values())
        if (sinceMs <= untilMs) accepted.socket.destroy()
    },
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
      // `server.close` does not wait for connections that came from another process.
      await connections.emptied()
    },
    closeIdleConnections: (quietMs = 0) => connections.closeIdle(quietMs),
    closeAllConnections: () => connections.closeAll(),
  }
}

/** Accepts waiting connections, because the system resets them when the listener closes. */
async function acceptQueued(server: Server): Promise<void> {
  const endMs = performance.now() + LONGEST_MS
  let quietTurns = 0
  const accepted = () => {
    quietTurns = 0
  }
  server.on('connection', accepted)
  // Node accepts one connection, or a few, in each turn.
  for (let turns = 0; turns <= LEAST_TURNS || performance.now() < endMs; turns++) {
    await new Promise(setImmediate)
    quietTurns += 1
    if (quietTurns > QUIET_TURNS) break
  }
  server.off('connection', accepted)
}
