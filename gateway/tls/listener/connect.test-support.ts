import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { type PeerCertificate, peerOf } from '../clients/peer.ts'
import {
  type Authority,
  type Issued,
  makeAuthority,
  makeCertificate,
  SERVER_AUTH,
} from '../demo/throw-away-ca.ts'
import { listenerOptions, parseTls, type TlsFiles, type TlsMaterial, type TlsTexts } from './tls-context.ts'

export const FILES: TlsFiles = {
  certFile: 'server.pem',
  keyFile: 'server-key.pem',
  clientCaFile: 'ca.pem',
  clientCrlFile: 'crl.pem',
  ticketKeyFile: 'ticket-key',
  ocspFile: undefined,
}

interface TlsFixture {
  readonly ca: Authority
  readonly server: Issued
}

/** An authority, and its certificate for a server at localhost. */
export async function makeFixture(): Promise<TlsFixture> {
  const ca = await makeAuthority({ subject: 'CN=Root,O=Test' })
  return { ca, server: await makeServer(ca) }
}

export function makeServer(ca: Authority, rsaBits?: number): Promise<Issued> {
  const san = [
    { type: 'dns', value: 'localhost' },
    { type: 'ip', value: '127.0.0.1' },
  ] as const
  const wish = { subject: 'CN=localhost', issuer: ca, san, extendedKeyUsages: [SERVER_AUTH] }
  return makeCertificate(rsaBits === undefined ? wish : { ...wish, rsaBits })
}

/** Makes a revocation list look signed with ecdsa-with-SHA224, which the gateway does not check. */
export function uncheckedList(pem: string): string {
  const der = Buffer.from(pem.replaceAll(/-----.*-----|\s/g, ''), 'base64')
  const changed = der.toString('hex').replaceAll('2a8648ce3d040302', '2a8648ce3d040301')
  return `-----BEGIN X509 CRL-----\n${Buffer.from(changed, 'hex').toString('base64')}\n-----END X509 CRL-----\n`
}

/** Texts without client authorities, unless `more` has some. */
export function textsOf({ server }: TlsFixture, more: Partial<TlsTexts> = {}): TlsTexts {
  return { cert: server.certPem, key: server.keyPem, clientCa: undefined, clientCrl: undefined, ...more }
}

/** @throws when there is a fault */
export function materialOf(texts: TlsTexts, nowMs = Date.now()): TlsMaterial {
  const { value, faults } = parseTls(FILES, texts, nowMs)
  if (value === undefined) throw new Error(JSON.stringify(faults))
  return value
}

/** A server as the gateway makes it, which answers with its verdict on the caller. */
export class TestServer {
  readonly server: Server
  material: TlsMaterial
  clock: () => number = Date.now
  peer: PeerCertificate | undefined

  private constructor(material: TlsMaterial) {
    this.material = material
    this.server = createServer(
      // No connection ends because a busy machine is slow between two requests of a test.
      { ...listenerOptions(material, { handshakeMs: 60_000, http2: false }), keepAliveTimeout: 0 },
      (req, res) => {
        const socket = req.socket as TLSSocket
        this.peer = peerOf(socket, this.material.trust, this.clock())
        const { authorized, reason, mayPassAnew } = this.peer ?? {}
        const answer = () =>
          res.end(JSON.stringify({ authorized, reason, mayPassAnew, resumed: socket.isSessionReused() }))
        if (req.url === '/after-end') socket.once('end', () => setImmediate(setImmediate, answer))
        else answer()
      },
    )
  }

  static async start(t: TestContext, material: TlsMaterial): Promise<TestServer> {
    const { server } = new TestServer(material).#listen()
    await once(server.server, 'listening')
    t.after(() => {
      server.server.close()
      server.server.closeAllConnections()
    })
    return server
  }

  #listen(): { readonly server: TestServer } {
    this.server.listen(0, '127.0.0.1')
    return { server: this }
  }

  /** Does what the reloader's swap does in the gateway. */
  swap(material: TlsMaterial): void {
    this.server.setSecureContext(material.secure)
    this.material = material
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }
}

export interface Verdict {
  readonly authorized?: boolean
  readonly reason?: string
  readonly mayPassAnew?: true
  readonly resumed: boolean
}

/** A client on one connection. */
export class TestClient {
  readonly socket: TLSSocket
  session: Buffer | undefined

  private constructor(socket: TLSSocket) {
    this.socket = socket
    socket.setEncoding('latin1')
    socket.on('session', (session) => {
      this.session = session
    })
  }

  /** @throws when the handshake fails */
  static async connect({ port }: TestServer, options: ConnectionOptions): Promise<TestClient> {
    const socket = connect({
      port,
      host: '127.0.0.1',
      servername: 'localhost',
      ALPNProtocols: ['http/1.1'],
      ...options,
    })
    const client = new TestClient(socket)
    await once(socket, 'secureConnect')
    return client
  }

  /** One request on the connection. @throws when it breaks off */
  async ask(): Promise<Verdict> {
    this.socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    let text = ''
    while (!text.endsWith('}')) {
      const [piece] = await Promise.race([
        once(this.socket, 'data'),
        once(this.socket, 'close').then(() => {
          throw new Error('closed')
        }),
      ])
      text += piece
    }
    return JSON.parse(text.slice(text.indexOf('{')))
  }
}

/** The verdict of a server on a client that asks once and sends `certificate` and `chain`. */
export async function verdictOn(
  server: TestServer,
  ca: Authority,
  {
    certificate,
    chain = [],
    options = {},
  }: {
    readonly certificate?: Issued | undefined
    readonly chain?: readonly Issued[]
    readonly options?: ConnectionOptions
  },
): Promise<Verdict> {
  const shown =
    certificate === undefined
      ? {}
      : { key: certificate.keyPem, cert: [certificate, ...chain].map(({ certPem }) => certPem).join('') }
  const client = await TestClient.connect(server, { ca: ca.certPem, ...shown, ...options })
  const verdict = await client.ask()
  client.socket.destroy()
  return verdict
}
