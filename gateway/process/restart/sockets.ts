import { X509Certificate } from 'node:crypto'
import { type Server, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

/** A TCP socket as Node passes it between processes. The object is its own copy: closing it leaves the others as they are. */
export interface PassedSocket {
  readonly fd: number
  close(): void
  /** Of a connection. */
  readStop?(): number
  /** Of one that listens. */
  getsockname?(out: { port?: number }): number
  /** Of a connection. */
  getpeername?(out: { address?: string; port?: number }): number
}

/** One that listens. `fd` alone is enough for `listen`. */
export type ListeningSocket = Pick<PassedSocket, 'fd'>

export const LISTENERS = ['http', 'https', 'admin'] as const
export type ListenerName = (typeof LISTENERS)[number]

export type NamedSocket<S = PassedSocket> = readonly [name: ListenerName, socket: S]

/** By listener: the sockets that it need not open; with workers there are several. */
export type ListeningSockets<S = ListeningSocket> = Readonly<Partial<Record<ListenerName, readonly S[]>>>

/** What the other process cannot see of a connection whose TLS ends in this one. Certificates: base64 of the DER, the client's first. */
export interface ClearOrigin {
  readonly peer: string
  readonly authorized: boolean
  readonly authorizationError: string | undefined
  readonly certificates: readonly string[]
}

/** A connection on its way to the other process. `socket`: also a descriptor, from one thread to another. */
export interface PassedConnection<S = PassedSocket> {
  readonly socket: S
  /** What has been read of it, base64. */
  readonly unread: string | undefined
  /** Undefined: it is the client's own connection. */
  readonly clear: ClearOrigin | undefined
}

/** The client's and ten authorities': no honest client sends more. */
const MAX_CERTIFICATES = 11

/** The one property of Node's servers and sockets that is not documented; `node:cluster` passes the same objects. */
interface WithHandle {
  readonly _handle: PassedSocket | null
}

/** @returns undefined when it does not listen. */
export function socketOf(server: Server): PassedSocket | undefined {
  return (server as unknown as WithHandle)._handle ?? undefined
}

/**
 * A socket of another thread, so that the main thread can pass it to a process. The thread owns the descriptor: this object must
 * not be closed, and is left alone when that is.
 *
 * @throws Error when the descriptor is no socket, because the thread has ended
 */
export function socketOfThread(fd: number): PassedSocket {
  const options = { fd, readable: false, writable: false }
  return (new Socket(options) as unknown as WithHandle)._handle as PassedSocket
}

/** Address and port of the other end; undefined when there is none. */
export function peerOfSocket(socket: PassedSocket): string | undefined {
  const name: { address?: string; port?: number } = {}
  socket.getpeername?.(name)
  return name.port === undefined ? undefined : `${name.address} ${name.port}`
}

/** @returns undefined when the system does not say. */
export function portOfSocket(socket: PassedSocket | undefined): number | undefined {
  const name: { port?: number } = {}
  socket?.getsockname?.(name)
  return name.port
}

/** A paused connection as it is passed on; undefined when it is closed. @param kept what has been read, if not in the stream */
export function takeConnection(
  socket: Socket,
  clear: ClearOrigin | undefined,
  kept?: Buffer,
): PassedConnection | undefined {
  const { _handle: handle } = socket as unknown as WithHandle
  if (handle === null || socket.destroyed) return undefined
  // It may begin to read.
  const unread: Buffer | null = kept ?? socket.read()
  handle.readStop?.()
  return { socket: handle, unread: unread?.toString('base64'), clear }
}

/** The connection in the process that it was passed to, and in the thread that is to have it. */
export function adoptConnection({
  socket: from,
  unread,
  clear,
}: PassedConnection<PassedSocket | number>): Socket {
  const source = typeof from === 'number' ? { fd: from } : { handle: from }
  const options: object = { ...source, allowHalfOpen: true, readable: true, writable: true }
  const socket = new Socket(options)
  if (clear !== undefined) lookSecure(socket, clear)
  if (unread !== undefined) socket.unshift(Buffer.from(unread, 'base64'))
  return socket
}

/** Shows of the client what `originOf` has found. */
function lookSecure(socket: Socket, { peer, certificates, ...verdict }: ClearOrigin): void {
  const chain = certificates.map((der) => new X509Certificate(Buffer.from(der, 'base64')))
  for (const [at, certificate] of chain.entries())
    Object.defineProperty(certificate, 'issuerCertificate', { value: chain[at + 1] })
  Object.assign(socket, { ...verdict, encrypted: true, getPeerX509Certificate: () => chain[0] })
  Object.defineProperty(socket, 'remoteAddress', { value: peer })
}

export function originOf(socket: TLSSocket): ClearOrigin {
  const certificates: string[] = []
  let certificate = socket.getPeerX509Certificate()
  while (certificate !== undefined && certificates.length < MAX_CERTIFICATES) {
    certificates.push(certificate.raw.toString('base64'))
    certificate = certificate.issuerCertificate
  }
  return {
    peer: socket.remoteAddress ?? '',
    authorized: socket.authorized,
    authorizationError: socket.authorized ? undefined : String(socket.authorizationError),
    certificates,
  }
}
