import type { Socket } from 'node:net'

/** What is not documented of Node's sockets: where libuv counts. With TLS, the connection below. */
interface Counts {
  readonly bytesWritten?: number
  /** What the system has not taken, of writes under way too. */
  readonly writeQueueSize?: number
  readonly _parent?: Counts
}

/**
 * How many bytes the system has taken from a socket to send them, those of TLS included: the number that grows while a client
 * takes anything. Node's own numbers change only when a whole write is done, which can be 256 KiB and more.
 */
export function takenBytes(socket: Socket): number {
  const handle = (socket as unknown as { readonly _handle?: Counts | null })._handle
  const { bytesWritten, writeQueueSize } = handle?._parent ?? handle ?? {}
  if (bytesWritten === undefined || writeQueueSize === undefined)
    return socket.bytesWritten - socket.writableLength
  return bytesWritten - writeQueueSize
}
