import { type Server, Socket } from 'node:net'

/** A TCP socket as Node passes it between processes. The object is its own copy: closing it leaves the others as they are. */
export interface PassedSocket {
  readonly fd: number
  close(): void
  /** Of a connection. */
  readStop?(): number
}

/** One that listens. `fd` alone is enough for `listen`. */
export type ListeningSocket = Pick<PassedSocket, 'fd'>

export const LISTENERS = ['http', 'https', 'admin'] as const
export type ListenerName = (typeof LISTENERS)[number]

/** By listener: the sockets that it need not open. */
export type ListeningSockets = Readonly<Partial<Record<ListenerName, ListeningSocket>>>

/** The one property of Node's servers and sockets that is not documented; `node:cluster` passes the same objects. */
interface WithHandle {
  readonly _handle: PassedSocket | null
}

/** @returns undefined when it does not listen. */
export function socketOf(server: Server): PassedSocket | undefined {
  return (server as unknown as WithHandle)._handle ?? undefined
}

/** A paused connection as it is passed on, and what has been read of it; undefined when it is closed. */
export function takeConnection(
  socket: Socket,
): { readonly handle: PassedSocket; readonly unread: Buffer | undefined } | undefined {
  const { _handle: handle } = socket as unknown as WithHandle
  if (handle === null || socket.destroyed) return undefined
  handle.readStop?.()
  const unread: Buffer | null = socket.read()
  return { handle, unread: unread ?? undefined }
}

/** The connection in the process that it was passed to. */
export function adoptConnection(handle: PassedSocket, unread: Buffer | undefined): Socket {
  const options: object = { handle, allowHalfOpen: true, readable: true, writable: true }
  const socket = new Socket(options)
  if (unread !== undefined) socket.unshift(unread)
  return socket
}
