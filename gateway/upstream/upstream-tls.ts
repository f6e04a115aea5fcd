import { isIP, type OnReadOpts } from 'node:net'
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import type { Address } from './upstream-address.ts'

/**
 * TLS with one `https://` upstream. The certificate is verified against the trusted authorities and the upstream's name
 * (RFC 9110 section 4.3.4); nothing can turn that off. Holds what would be costly to make for each connection: the
 * authorities, and the session that the next one resumes (RFC 8446 section 2.2).
 */
export class UpstreamTls {
  readonly #address: Address
  readonly #context: SecureContext
  #session: Buffer | undefined = undefined

  constructor(address: Address) {
    this.#address = address
    this.#context = createSecureContext({ minVersion: 'TLSv1.2' })
  }

  /** Begins a connection and its handshake. */
  connect(onread: OnReadOpts): TLSSocket {
    const { host, port } = this.#address
    const options: ConnectionOptions & { readonly onread: OnReadOpts } = {
      host,
      port,
      // Server Name Indication takes names only (RFC 6066 section 3); an IP address is verified by `host`.
      ...(isIP(host) === 0 ? { servername: host } : {}),
      onread,
      ...(this.#session === undefined ? {} : { session: this.#session }),
      secureContext: this.#context,
      ALPNProtocols: ['http/1.1'],
      // Explicit, so that NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect.
      rejectUnauthorized: true,
    }
    const socket = connect(options)
    socket.on('session', (session: Buffer) => {
      this.#session = session
    })
    return socket
  }

  /** A connection failed: the next begins with a handshake of its own. */
  forget(): void {
    this.#session = undefined
  }
}
