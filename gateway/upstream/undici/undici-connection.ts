import { connect as connectTcp, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Address } from '../upstream-address.ts'

const TCP_KEEP_ALIVE_MS = 60_000

/** A connection that never stood: nothing can have been sent on it. */
export class ConnectError extends Error {
  readonly code: 'UPSTREAM_CONNECT' | 'UPSTREAM_CONNECT_TIMEOUT'

  constructor(code: ConnectError['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** What the opener of a connection is told: exactly one of the two, once, and never before `openConnection` returned. */
export interface ConnectionOpening {
  /** Where a connection in the clear reads into, instead of its stream. */
  readonly onread?: OnReadOpts
  connected(socket: Socket): void
  failed(error: ConnectError): void
}

/**
 * Opens a connection; for `https://` it stands when the handshake is done and the certificate has been verified
 * against the trusted authorities and the upstream's name (RFC 9110 section 4.3.4), which nothing can turn off.
 * Destroying the returned socket gives the attempt up.
 */
export function openConnection(address: Address, connectMs: number, opening: ConnectionOpening): Socket {
  const { secure, host, port, socketPath } = address
  const socket = secure
    ? connectTls({
        host,
        port,
        // Server Name Indication takes names only (RFC 6066 section 3); an address is verified by `host`.
        ...(isIP(host) === 0 ? { servername: host } : {}),
        ALPNProtocols: ['http/1.1'],
        // Written out, so that NODE_TLS_REJECT_UNAUTHORIZED=0 does not reach here.
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
  // Stays for the socket's life: an upgraded one has no other listener until its receiver takes it.
  socket.on('error', (error: NodeJS.ErrnoException) => settle(connectError(error)))
  socket.once('close', () => settle(new ConnectError('UPSTREAM_CONNECT', 'the attempt was given up')))
  return socket
}

function connectError(error: NodeJS.ErrnoException): ConnectError {
  const code = error.code === 'ETIMEDOUT' ? 'UPSTREAM_CONNECT_TIMEOUT' : 'UPSTREAM_CONNECT'
  // With several addresses behind a name the message is empty and the code says it.
  return new ConnectError(code, error.message || String(error.code))
}
