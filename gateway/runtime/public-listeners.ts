import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { Settings } from '../config/settings.ts'
import type { Http2Protocol } from '../edge/http1/connection-terms.ts'
import type { Connections } from '../edge/http1/connections.ts'
import {
  createHttpServer,
  createSecureHttpServer,
  type HttpServer,
  type SecureHttpServer,
} from '../edge/http1/http-server.ts'
import type { Exchange } from '../exchange.ts'
import type { InForce } from '../gateway.ts'
import { TicketKeys } from '../tls/listener/ticket-keys.ts'
import { listenerOptions, type TlsMaterial } from '../tls/listener/tls-context.ts'
import { isSendable, type Staple } from '../tls/stapling/stapler.ts'
import { boundClients, connectionsOf } from './listener.ts'
import {
  type ListeningSocket,
  type ListeningSockets,
  type NamedSocket,
  type PassedSocket,
  socketOf,
} from './restart/sockets.ts'

/** How many connections may wait to be accepted, as far as the system allows (`net.core.somaxconn`). */
const BACKLOG = 4096
const WHEN_PUBLIC_TAKEN =
  'gateways share a port only when each of them has GATEWAY_REUSE_PORT=true, and all have the same user'

export interface Place {
  readonly host: string
  readonly port: number
  /** Other processes listen there too (SO_REUSEPORT); the system distributes connections among them. */
  readonly shared?: boolean
  /** A socket that listens there already; undefined: one is opened. */
  readonly open?: ListeningSocket | undefined
  readonly whenTaken?: string
}

export class CannotListen extends Error {
  readonly place: Place

  constructor(place: Place, cause: unknown) {
    const { code, message = String(cause) } = Object(cause) as NodeJS.ErrnoException
    const remedy = code === 'EADDRINUSE' && place.whenTaken
    super(remedy ? `${message}: ${remedy}` : message, { cause })
    this.place = place
  }
}

/** What the log says of a start that failed: it need not be for an address. */
export function startFailure(error: unknown): {
  readonly what: 'cannot listen' | 'cannot start'
  readonly cause: string
} & Partial<Pick<Place, 'host' | 'port'>> {
  const cause = error instanceof Error ? error.message : String(error)
  if (!(error instanceof CannotListen)) return { what: 'cannot start', cause }
  const { host, port } = error.place
  return { what: 'cannot listen', host, port, cause }
}

export type PublicListeners = Awaited<ReturnType<typeof openPublicListeners>>

/** Resolves when all listen. @throws CannotListen */
export async function openPublicListeners(
  inForce: InForce,
  options: {
    readonly material: TlsMaterial | undefined
    readonly tickets: TicketKeys
    /** Sockets that listen already; where there are none, one is opened. */
    readonly open?: ListeningSockets | undefined
  },
) {
  const { settings, tls, clock } = inForce.gateway
  const { material, tickets, open = {} } = options
  const connections = connectionsOf(inForce, await loadHttp2(settings))
  const listening: [name: 'http' | 'https', listener: HttpServer][] = []
  const begin = async (name: 'http' | 'https', port: number, listener: HttpServer) => {
    const { host, reusePort: shared } = settings
    const place = { host, port, shared, open: open[name], whenTaken: WHEN_PUBLIC_TAKEN }
    const bound = await listen(listener.server, place)
    listening.push([name, listener])
    return bound
  }
  const port = await begin('http', settings.port, createHttpServer(connections))
  let secured: SecureListener | undefined
  let tlsPort: number | undefined
  if (settings.tls !== undefined && material !== undefined) {
    const { handshakeMs } = settings.timeouts
    const { http2 } = settings
    const staples = settings.tls.ocspFile !== undefined || settings.tls.ocspFetch
    secured = new SecureListener(connections, material, { handshakeMs, http2, staples, tickets, clock })
    tlsPort = await begin('https', settings.tls.port, secured.http)
  }
  return {
    listeners: listening.map(([, listener]) => listener),
    connections,
    port,
    tlsPort,
    /** Puts a certificate and client trust in force for new connections. */
    enforce: (changed: TlsMaterial) => {
      if (secured === undefined) return
      secured.enforce(changed)
      tls.trust = changed.trust
    },
    /** @param staple of new connections; undefined: none */
    staple: (staple: Staple | undefined) => secured?.staple(staple),
    boundClients: () => boundClients(connections, inForce.gateway.settings),
    sockets: () =>
      listening.map(([name, { server }]): NamedSocket => [name, socketOf(server) as PassedSocket]),
    /** Stops accepting connections; those that there are stay. */
    stopAccepting: () => {
      for (const [, { server }] of listening) server.close()
    },
    /** Accepts again, on copies of the sockets in their order. */
    acceptAgain: (sockets: readonly ListeningSocket[]) => {
      for (const [at, [, { server }]] of listening.entries()) server.listen(sockets[at], BACKLOG)
    },
  }
}

/** Loads what serves HTTP/2 only where a client may speak it. */
async function loadHttp2({
  http2,
  tls,
}: Pick<Settings, 'http2' | 'tls'>): Promise<Http2Protocol | undefined> {
  const isSpoken = http2 === 'tls' ? tls !== undefined : http2
  return isSpoken ? (await import('../edge/http2/http2-connection.ts')).http2 : undefined
}

/** Resolves to the bound port. @throws CannotListen */
export async function listen(server: Server, place: Place): Promise<number> {
  const { host, port, shared = false, open } = place
  if (open === undefined) server.listen({ host, port, reusePort: shared, backlog: BACKLOG })
  else server.listen(open, BACKLOG)
  try {
    await once(server, 'listening')
  } catch (error) {
    throw new CannotListen(place, error)
  }
  return (server.address() as AddressInfo).port
}

/** How often the day is looked at. */
const RENEW_MS = 1000

interface SecureTerms {
  readonly handshakeMs: number
  readonly http2: Settings['http2']
  /** Whether a response of OCSP may come. */
  readonly staples: boolean
  /** For sessions, where no other gateway has the secret. */
  readonly tickets: TicketKeys
  readonly clock: () => number
}

/** The HTTPS listener: its certificate, the response of OCSP, and the key of session tickets, which is new each day. */
export class SecureListener {
  readonly http: SecureHttpServer
  readonly #terms: SecureTerms
  #material: TlsMaterial
  #tickets: TicketKeys
  #day = 0
  #staple: Staple | undefined

  constructor(connections: Connections<Exchange>, material: TlsMaterial, terms: SecureTerms) {
    this.#terms = terms
    this.#material = material
    this.#tickets = this.#ticketsOf(material)
    const options: TlsOptions = { ...listenerOptions(material, terms), ticketKeys: this.#ticketKey() }
    this.http = createSecureHttpServer(connections, options)
    // A listener for this event costs every handshake a turn of the loop.
    if (terms.staples)
      this.http.tls.on('OCSPRequest', (_certificate, _issuer, reply) =>
        reply(null, this.#stapleOfNow() as Buffer),
      )
    setInterval(() => this.renewTicketKey(), RENEW_MS).unref()
  }

  /** Puts a certificate in force for new connections. */
  enforce(material: TlsMaterial): void {
    this.#material = material
    this.#tickets = this.#ticketsOf(material)
    this.http.tls.setSecureContext({ ...material.secure, ticketKeys: this.#ticketKey() })
  }

  /** Has the response sent to new connections, while it holds. */
  staple(staple: Staple | undefined): void {
    this.#staple = staple
  }

  /** Takes the key of a new day. */
  renewTicketKey(): void {
    if (this.#tickets.dayKey(this.#terms.clock()).day !== this.#day)
      this.http.tls.setTicketKeys(this.#ticketKey())
  }

  #stapleOfNow(): Buffer | undefined {
    const { thumbprint } = this.#material.summary.certificate
    const staple = this.#staple
    return isSendable(staple, thumbprint, this.#terms.clock()) ? Buffer.from(staple.der) : undefined
  }

  #ticketKey(): Buffer {
    const nowMs = this.#terms.clock()
    this.#day = this.#tickets.dayKey(nowMs).day
    return this.#tickets.at(nowMs, this.#material.summary.certificate.thumbprint)
  }

  #ticketsOf({ sharedTickets }: TlsMaterial): TicketKeys {
    return sharedTickets === undefined
      ? this.#terms.tickets
      : new TicketKeys(sharedTickets, { ofSecret: true })
  }
}
