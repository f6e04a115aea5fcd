import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type Server as SecureServer, type TlsOptions } from 'node:tls'
import type { AcceptedConnection } from './client-networks.ts'
import type { Connections } from './connections.ts'
import { acceptClientSockets } from './sockets/client-socket.ts'

/** Time that a drain leaves for TLS handshakes: enough for an honest client from anywhere. */
const HANDSHAKE_MS = 1000

/** After so many turns of the event loop without a new connection, the system's queue counts as empty. */
const QUIET_TURNS = 3
/** Emptying the queue takes at most `LONGEST_MS`, however many clients come. A busy machine gets `LEAST_TURNS` turns all the same. */
const LONGEST_MS = 500
const LEAST_TURNS = 100

/** An HTTP listener and all connections that it has accepted. */
export interface HttpServer {
  /** The caller tells it where to listen. */
  readonly server: Server
  /** Empties the accept queue, then stops listening. Resolves when the last connection has ended. */
  close(): Promise<void>
  /** @param quietMs how long a connection must have been idle; 0 when left out */
  closeIdleConnections(quietMs?: number): void
  closeAllConnections(): void
}

export interface SecureHttpServer extends HttpServer {
  /** Does the handshakes; does not listen. */
  readonly tls: SecureServer
}

export function createHttpServer<E>(connections: Connections<E>): HttpServer {
  // A client may close its half after its request, and still gets the response.
  const server = createServer({ allowHalfOpen: true }, (socket) => connections.accept(socket))
  acceptClientSockets(server)
  return httpServer(server, connections)
}

/** A listener with TLS. It counts connections from accept on, so that endless handshakes count too. */
export function createSecureHttpServer<E>(
  connections: Connections<E>,
  options: TlsOptions,
): SecureHttpServer {
  const handshakes = new Map<string, { readonly accepted: AcceptedConnection; readonly sinceMs: number }>()
  const tls = createSecureServer(options, (socket) => {
    const name = nameOf(socket)
    const accepted = handshakes.get(name)?.accepted
    handshakes.delete(name)
    // After its request a client may close its half, as without TLS.
    socket.allowHalfOpen = true
    // Node throws for a TLS socket: the TCP connection below is reset instead.
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
    // The TLS socket takes this setting over: a client that closes its half in the handshake has gone.
    socket.allowHalfOpen = false
    tls.emit('connection', socket)
  })
  // No HTTP yet: there is nothing to respond to.
  tls.on('tlsClientError', (_error, socket) => socket.destroy())
  const listener = httpServer(server, connections)
  return {
    ...listener,
    tls,
    // A connection in its handshake has no request: a drain does not wait for it for long.
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

/** Accepts the connections that wait in the system's queue: the system resets waiting ones when the listener closes. */
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
