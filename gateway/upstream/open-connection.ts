import { connect as connectTcp, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Address } from './upstream-address.ts'

const TCP_KEEP_ALIVE_MS = 60_000

/** No connection was made, so nothing was sent. */
export class ConnectError extends Error {
  readonly code: 'UPSTREAM_CONNECT' | 'UPSTREAM_CONNECT_TIMEOUT'

  constructor(code: ConnectError['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** Gets exactly one of the two calls, once, after `openConnection` has returned. */
export interface ConnectionOpening {
  /** Without TLS: reads into this buffer instead of a stream. */
  readonly onread?: OnReadOpts
  connected(socket: Socket): void
  failed(error: ConnectError): void
}

/**
 * Opens a connection. For `https://` it is connected when the handshake is done and the certificate has been verified
 * against the trusted authorities and the upstream's name (RFC 9110 section 4.3.4); nothing can turn that off. Destroy
 * the returned socket to give up.
 */
export function openConnection(address: Address, connectMs: number, opening: ConnectionOpening): Socket {
  const { secure, host, port, socketPath } = address
  const socket = secure
    ? connectTls({
        host,
        port,
        // Server Name Indication takes names only (RFC 6066 section 3); an IP address is verified by `host`.
        ...(isIP(host) === 0 ? { servername: host } : {}),
        ALPNProtocols: ['http/1.1'],
        // Explicit, so that NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect.
        rejectUnauthorized: true,
      })
    : connectTcp({
        ...(socketPath === undefined ? { host, port } : { path: socketPath }),
        ...(opening.onread === undefined ? {} : { onread: opening.onread }),
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
      socket.destroy()
      opening.failed(error)
    }
  }
  const timer = setTimeout(
    () => settle(new ConnectError('UPSTREAM_CONNECT_TIMEOUT', `no connection within ${connectMs} ms`)),
    connectMs,
  )
  socket.once(secure ? 'secureConnect' : 'connect', () => settle(undefined))
  // Never removed: an upgraded socket has no other listener until its receiver takes it.
  socket.on('error', (error: NodeJS.ErrnoException) => settle(connectError(error)))
  socket.once('close', () => settle(new ConnectError('UPSTREAM_CONNECT', 'the attempt was given up')))
  return socket
}

function connectError(error: NodeJS.ErrnoException): ConnectError {
  const code = error.code === 'ETIMEDOUT' ? 'UPSTREAM_CONNECT_TIMEOUT' : 'UPSTREAM_CONNECT'
  // When a name has several addresses the message is empty.
  return new ConnectError(code, error.message || String(error.code))
}
