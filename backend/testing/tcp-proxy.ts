import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.ts'

/** A proxy that a test can cut. */
export interface TcpProxy {
  readonly port: number
  /** Breaks every connection and refuses new ones. */
  cut(): Promise<void>
  restore(): Promise<void>
  /** Passes nothing on, like a server that hangs or a network that drops packets. */
  stall(): void
  /** When a client next sends `sent`, the server gets it, but the connection breaks before the response. */
  loseResponseTo(sent: string): void
}

/** Starts a proxy to `host:port` on a free port. With `isCut` it refuses everybody until `restore`. */
export async function startTcpProxy(
  target: { readonly host: string; readonly port: number },
  { isCut = false }: { readonly isCut?: boolean } = {},
): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  let unanswered: string | undefined
  const server = createServer((near) => {
    const far = connect(target)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.on('data', (bytes: Buffer) => {
      if (unanswered === undefined || !bytes.includes(unanswered)) return
      unanswered = undefined
      // A server that responds has done its work.
      far
        .unpipe(near)
        .once('data', () => near.resetAndDestroy())
        .resume()
    })
    near.pipe(far).pipe(near)
  })
  // A port that nobody else gets while the proxy is cut.
  const port = await freePort()
  await listen(server, port)
  const cut = async () => {
    server.close()
    for (const socket of sockets) socket.resetAndDestroy()
    await once(server, 'close')
  }
  if (isCut) await cut()
  return {
    port,
    cut,
    restore: () => listen(server, port),
    stall: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
    loseResponseTo: (sent) => {
      unanswered = sent
    },
  }
}

async function listen(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}
