import { connect, type OnReadOpts, type Socket } from 'node:net'
import type { Address } from './upstream-address.ts'
import type { UpstreamTls } from './upstream-tls.ts'

const TCP_KEEP_ALIVE_MS = 60_000

/** Nothing was sent. */
export class ConnectError extends Error {
  readonly code: 'UPSTREAM_CONNECT' | 'UPSTREAM_CONNECT_TIMEOUT'

  constructor(code: ConnectError['code'], message: string) {
    super(message)
    this.code = code
  }
}

export interface ConnectionTarget {
  readonly address: Address
  /** Undefined without TLS. */
  readonly tls: UpstreamTls | undefined
  readonly connectMs: number
}

/** Exactly one is called, once, after `openConnection` has returned. */
interface ConnectionOpening {
  /** Reads into this buffer instead of a stream. */
  readonly onread?: OnReadOpts
  connected(socket: Socket): void
  failed(error: ConnectError): void
}

/** Opens a connection; with TLS until the handshake is done. Destroy the returned socket to give up. */
export function openConnection(target: ConnectionTarget, opening: ConnectionOpening): Socket {
  const { address, tls, connectMs } = target
  const { host, port, socketPath } = address
  const { onread } = opening
  const socket =
    tls?.connect(onread) ??
    connect({
      ...(socketPath === undefined ? { host, port } : { path: socketPath }),
      ...(onread === undefined ? {} : { onread }),
    })
  socket.setNoDelay(true)
  socket.setKeepAlive(true, TCP_KEEP_ALIVE_MS)

  let settled = false
  const settle = (error: ConnectError | undefined): void => {
    if (settled) return
    settled = true
    clearTimeout(timer)
    if (error === undefined) {
      opening.connected(socket)
    } else {
      tls?.forget()
      socket.destroy()
      opening.failed(error)
    }
  }
  const timer = setTimeout(
    () => settle(new ConnectError('UPSTREAM_CONNECT_TIMEOUT', `no connection within ${connectMs} ms`)),
    connectMs,
  )
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => settle(undefined))
  // Never removed: an upgraded socket has no other listener until its receiver takes it.
  socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    const kind = code === 'ETIMEDOUT' ? 'UPSTREAM_CONNECT_TIMEOUT' : 'UPSTREAM_CONNECT'
    // When a name has several addresses the message is empty.
    settle(new ConnectError(kind, message || String(code)))
  })
  socket.once('close', () => settle(new ConnectError('UPSTREAM_CONNECT', 'the attempt was given up')))
  return socket
}
