import { connect, type OnReadOpts, type Socket } from 'node:net'
import type { Address } from './upstream-address.ts'
import type { UpstreamFault } from './upstream-client.ts'
import type { UpstreamTls } from './upstream-tls.ts'

const TCP_KEEP_ALIVE_MS = 60_000

export interface ConnectionTarget {
  readonly address: Address
  readonly tls: UpstreamTls | undefined
  readonly connectMs: number
}

/** Either `connected` or `failed` is called, once, after `openConnection` has returned. */
interface ConnectionOpening {
  readonly onread?: OnReadOpts
  connected(socket: Socket): void
  /** Nothing was sent. */
  failed(fault: UpstreamFault): void
}

/** Opens a connection, with TLS including the handshake. Destroy the returned socket to give up. */
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
  const settle = (fault: UpstreamFault | undefined): void => {
    if (settled) return
    settled = true
    clearTimeout(timer)
    if (fault === undefined) {
      opening.connected(socket)
    } else {
      tls?.forget()
      socket.destroy()
      opening.failed(fault)
    }
  }
  const timer = setTimeout(
    () => settle({ kind: 'timeout', cause: `no connection within ${connectMs} ms` }),
    connectMs,
  )
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => settle(undefined))
  // This listener stays, because an upgraded socket has no other until its receiver takes it.
  socket.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    // The message is empty when a name has several addresses.
    settle({ kind: code === 'ETIMEDOUT' ? 'timeout' : 'unreachable', cause: message || String(code) })
  })
  socket.once('close', () => settle({ kind: 'unreachable', cause: 'the attempt was given up' }))
  return socket
}
