import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import type { TlsOptions } from 'node:tls'
import type { Settings } from '../config/settings.ts'
import type { ClientTimeouts, HeadBounds } from '../edge/http1/connection-deadline.ts'
import type { Http2Protocol } from '../edge/http1/connection-terms.ts'
import { Connections } from '../edge/http1/connections.ts'
import type { Handler, RequestFault } from '../edge/http1/handler.ts'
import {
  createHttpServer,
  createSecureHttpServer,
  type HttpServer,
  type SecureHttpServer,
} from '../edge/http1/http-server.ts'
import { isTrusted } from '../edge/rules/client-address.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway, InForce } from '../gateway.ts'
import { handle, handleUnreadable } from '../pipeline.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { giveUp } from '../stages/response/refuse.ts'
import { messageOf } from '../terminal/printable.ts'
import { TicketKeys } from '../tls/listener/ticket-keys.ts'
import { listenerOptions, type TlsMaterial } from '../tls/listener/tls-context.ts'
import { isSendable, type Staple } from '../tls/stapling/stapler.ts'
import {
  type ListeningSocket,
  type ListeningSockets,
  type NamedSocket,
  type PassedSocket,
  socketOf,
} from './restart/sockets.ts'

/** Connections that may wait to be accepted, as far as `net.core.somaxconn` allows. */
const BACKLOG = 4096
const WHEN_PUBLIC_TAKEN =
  'gateways share a port only when each of them has GATEWAY_REUSE_PORT=true, and all run as the same user'

export interface Place {
  readonly host: string
  readonly port: number
  /** True when other processes listen there too (SO_REUSEPORT). */
  readonly shared?: boolean
  /** A socket that listens already; undefined: one is opened. */
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

export function startFailure(error: unknown): {
  readonly what: 'cannot listen' | 'cannot start'
  readonly cause: string
} & Partial<Pick<Place, 'host' | 'port'>> {
  const cause = messageOf(error)
  if (!(error instanceof CannotListen)) return { what: 'cannot start', cause }
  const { host, port } = error.place
  return { what: 'cannot listen', host, port, cause }
}

export type PublicListeners = Awaited<ReturnType<typeof openPublicListeners>>

/** @throws CannotListen */
export async function openPublicListeners(
  inForce: InForce,
  options: {
    readonly material: TlsMaterial | undefined
    readonly tickets: TicketKeys
    /** Sockets that listen already. Other listeners open their own. */
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
    enforce: (changed: TlsMaterial) => {
      if (secured === undefined) return
      secured.enforce(changed)
      tls.trust = changed.trust
    },
    /** @param staple undefined: none is sent */
    staple: (staple: Staple | undefined) => secured?.staple(staple),
    boundClients: () => {
      const { settings: edited } = inForce.gateway
      connections.bound(connectionRoom(edited), clientTimeoutsOf(edited), headBoundsOf(edited))
    },
    sockets: () =>
      listening.map(([name, { server }]): NamedSocket => [name, socketOf(server) as PassedSocket]),
    stopAccepting: () => {
      for (const [, { server }] of listening) server.close()
    },
    /** @param sockets copies of those of `sockets()`, in the same order */
    acceptAgain: (sockets: readonly ListeningSocket[]) => {
      for (const [at, [, { server }]] of listening.entries()) server.listen(sockets[at], BACKLOG)
    },
  }
}

async function loadHttp2({ http2, tls }: Settings): Promise<Http2Protocol | undefined> {
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

const RENEW_MS = 1000

interface SecureTerms {
  readonly handshakeMs: number
  readonly http2: Settings['http2']
  /** True when an OCSP response may be sent. */
  readonly staples: boolean
  /** Used when gateways share no secret. */
  readonly tickets: TicketKeys
  readonly clock: () => number
}

/** The HTTPS listener. Its key of session tickets is new each day. */
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
    // Listening for this event costs every handshake a turn of the event loop.
    if (terms.staples)
      this.http.tls.on('OCSPRequest', (_certificate, _issuer, reply) =>
        reply(null, this.#stapleOfNow() as Buffer),
      )
    setInterval(() => this.renewTicketKey(), RENEW_MS).unref()
  }

  /** Changes new connections only. */
  enforce(material: TlsMaterial): void {
    this.#material = material
    this.#tickets = this.#ticketsOf(material)
    this.http.tls.setSecureContext({ ...material.secure, ticketKeys: this.#ticketKey() })
  }

  /** Sends this OCSP response to new connections while it is valid. */
  staple(staple: Staple | undefined): void {
    this.#staple = staple
  }

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

const LOG_ABANDONED_EVERY_MS = 1000
/** Logs, trail, journal, listeners, admin clients; a generous estimate. */
const OWN_FILES = 256
const ASSUMED_FILES = 10_240
const LEAST_CONNECTIONS = 64

/** Even a malformed request goes to the pipeline, so that each response has its headers, audit records and metrics. */
function connectionsOf(inForce: InForce, http2?: Http2Protocol): Connections<Exchange> {
  const { clock, steadyClock, settings } = inForce.gateway
  return new Connections({
    handler: handlerOf(inForce),
    timeouts: clientTimeoutsOf(settings),
    head: headBoundsOf(settings),
    clock,
    steadyClock,
    http2,
    isPlainHttp2: settings.http2 === true,
    isLeaving: () => inForce.gateway.load.phase !== 'serving',
    maxConnections: connectionRoom(settings),
    handshakeMs: settings.timeouts.handshakeMs,
    isProxy: (address) => {
      const { trustedProxies } = inForce.gateway.settings
      return trustedProxies !== undefined && isTrusted(address, trustedProxies)
    },
  })
}

/** After an edit, `interrupt` has another `Gateway` than `begin` had: its refusal follows the edited settings. */
function handlerOf(inForce: InForce): Handler<Exchange> {
  return {
    begin: (arrival, fault) => handle(inForce.gateway, arrival, fault && refusalOf(fault)),
    unreadable: (arrival, fault) => handleUnreadable(inForce.gateway, arrival, refusalOf(fault)),
    interrupt: (exchange, fault) => giveUp(inForce.gateway, exchange, refusalOf(fault)),
    abandoned: abandonedReporter(inForce.gateway),
  }
}

/** Reports requests whose client left or reset them before they began. They have no audit records. */
function abandonedReporter({ log, metrics, steadyClock }: Gateway): (ip: string, requests: number) => void {
  metrics.gateway_requests_abandoned_total.begin()
  let loggedSteadyMs = Number.NEGATIVE_INFINITY
  return (ip, requests) => {
    metrics.gateway_requests_abandoned_total.add(requests)
    const nowMs = steadyClock()
    if (nowMs - loggedSteadyMs < LOG_ABANDONED_EVERY_MS) return
    loggedSteadyMs = nowMs
    log.info({ ip, requests }, 'a client went away before its requests could be begun')
  }
}

function refusalOf({ code, cause }: RequestFault): Refusal {
  return refusal(code, code === 'overloaded' ? { cause, headers: ['Retry-After', '1'] } : { cause })
}

function headBoundsOf({ maxHeaderBytes, maxHeaderFields }: Settings): HeadBounds {
  return { maxBytes: maxHeaderBytes, maxFields: maxHeaderFields }
}

function clientTimeoutsOf({ timeouts }: Settings): ClientTimeouts {
  const { requestHeadersMs, requestMs = Number.POSITIVE_INFINITY, keepAliveMs, bodyIdleMs } = timeouts
  return {
    headersMs: Math.min(requestHeadersMs, requestMs),
    requestMs,
    bodyPace: { graceMs: timeouts.bodyGraceMs, minBytesPerSecond: timeouts.minBodyBytesPerSecond },
    keepAliveMs,
    idleMs: bodyIdleMs,
  }
}

/**
 * Client connections that may be open: the limit on open files, less those for upstreams (two for each exchange, one for each
 * tunnel) and for the process itself. More idle clients could use up the files that active clients need.
 */
export function connectionRoom(
  { maxInFlight, maxTunnels }: Pick<Settings, 'maxInFlight' | 'maxTunnels'>,
  files: number = openFiles(),
): number {
  const left = files - OWN_FILES - 2 * maxInFlight - maxTunnels
  return Math.floor(Math.max(left, files / 4, LEAST_CONNECTIONS))
}

function openFiles(): number {
  try {
    const soft = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return soft === 'unlimited' ? Number.MAX_SAFE_INTEGER : Number(soft ?? ASSUMED_FILES)
  } catch {
    return ASSUMED_FILES
  }
}
