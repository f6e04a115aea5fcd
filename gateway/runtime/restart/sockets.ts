import { X509Certificate } from 'node:crypto'
import { type Server, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

/** A TCP socket as Node passes it between processes. Closing it leaves other copies open. */
export interface PassedSocket {
  readonly fd: number
  close(): void
  readStop?(): number
}

/** `fd` suffices for `listen`. */
export type ListeningSocket = Pick<PassedSocket, 'fd'>
export const LISTENERS = ['http', 'https', 'admin'] as const
export type ListenerName = (typeof LISTENERS)[number]

export type NamedSocket = readonly [name: ListenerName, socket: PassedSocket]

export type ListeningSockets<S = ListeningSocket> = Readonly<Partial<Record<ListenerName, S>>>

/** What another process cannot see of a TLS connection. Certificates: DER in base64, the client's first. */
export interface ClearOrigin {
  readonly peer: string
  readonly authorized: boolean
  readonly authorizationError: string | undefined
  readonly certificates: readonly string[]
}

export interface PassedConnection {
  readonly socket: PassedSocket
  readonly unread: string | undefined
  /** Undefined: `socket` is the client's own connection, not a relay. */
  readonly clear: ClearOrigin | undefined
}

/** One certificate of the client, and ten of authorities. */
const MAX_CERTIFICATES = 11

/** The only undocumented property of Node here. `node:cluster` passes the same objects. */
interface WithHandle {
  readonly _handle: PassedSocket | null
}

export function socketOf(server: Server): PassedSocket | undefined {
  return (server as unknown as WithHandle)._handle ?? undefined
}

/** Undefined when the connection is closed. @param kept bytes already read, if not in the socket */
export function takeConnection(
  socket: Socket,
  clear: ClearOrigin | undefined,
  kept?: Buffer,
): PassedConnection | undefined {
  const { _handle: handle } = socket as unknown as WithHandle
  if (handle === null || socket.destroyed) return undefined
  // `socket.read` may start the reading again, so `readStop` comes after it.
  const unread: Buffer | null = kept ?? socket.read()
  handle.readStop?.()
  return { socket: handle, unread: unread?.toString('base64'), clear }
}

export function adoptConnection({ socket: handle, unread, clear }: PassedConnection): Socket {
  const options: object = { handle, allowHalfOpen: true, readable: true, writable: true }
  const socket = new Socket(options)
  if (clear !== undefined) lookSecure(socket, clear)
  if (unread !== undefined) socket.unshift(Buffer.from(unread, 'base64'))
  return socket
}

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
