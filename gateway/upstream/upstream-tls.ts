import { isIP, type OnReadOpts } from 'node:net'
import {
  type ConnectionOptions,
  connect,
  createSecureContext,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import type { UpstreamTlsSettings } from '../config/upstreams/upstream-group.ts'
import type { Address } from './upstream-address.ts'

/** Certificates and keys in PEM. */
export interface UpstreamTlsTerms {
  /** Default: the authorities that Node knows. */
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
  /** Default: the host of the address. */
  readonly serverName: string | undefined
  readonly minVersion: UpstreamTlsSettings['minVersion']
  readonly maxVersion: UpstreamTlsSettings['maxVersion']
}

/**
 * Verifies the certificate against authorities and name (RFC 9110 section 4.3.4); nothing turns that off. Keeps what is
 * costly: the authorities, and the session that the next connection resumes (RFC 8446 section 2.2).
 */
export class UpstreamTls {
  readonly #address: Address
  readonly #context: SecureContext
  readonly #serverName: string | undefined
  #session: Buffer | undefined = undefined

  constructor(address: Address, terms: UpstreamTlsTerms | undefined) {
    this.#address = address
    const { ca, cert, key, serverName, minVersion = 'TLSv1.2', maxVersion = 'TLSv1.3' } = terms ?? {}
    // SNI takes names only (RFC 6066 section 3); `host` verifies an IP address.
    this.#serverName = serverName ?? (isIP(address.host) === 0 ? address.host : undefined)
    this.#context = createSecureContext({ ca, cert, key, minVersion, maxVersion })
  }

  connect(onread: OnReadOpts | undefined): TLSSocket {
    const { host, port, isHttp2 } = this.#address
    const options: ConnectionOptions & { readonly onread?: OnReadOpts } = {
      host,
      port,
      ...(this.#serverName === undefined ? {} : { servername: this.#serverName }),
      ...(onread === undefined ? {} : { onread }),
      ...(this.#session === undefined ? {} : { session: this.#session }),
      secureContext: this.#context,
      ALPNProtocols: [isHttp2 ? 'h2' : 'http/1.1'],
      // NODE_TLS_REJECT_UNAUTHORIZED=0 must have no effect.
      rejectUnauthorized: true,
    }
    const socket = connect(options)
    socket.on('session', (session: Buffer) => {
      this.#session = session
    })
    return socket
  }

  /** The next connection makes a full handshake. */
  forget(): void {
    this.#session = undefined
  }
}
