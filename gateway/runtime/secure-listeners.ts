import type { TlsOptions } from 'node:tls'
import type { Settings } from '../config/settings.ts'
import type { Connections } from '../edge/http1/connections.ts'
import { createSecureHttpServer, type SecureHttpServer } from '../edge/http1/http-server.ts'
import type { Exchange } from '../exchange.ts'
import { TicketKeys } from '../tls/listener/ticket-keys.ts'
import { listenerOptions, type TlsMaterial } from '../tls/listener/tls-context.ts'
import { isSendable, type Staple } from '../tls/stapling/stapler.ts'

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

/** The HTTPS listeners: one certificate for all of them, and one key of session tickets, which is new each day. */
export class SecureListeners {
  readonly #servers: SecureHttpServer[] = []
  readonly #terms: SecureTerms
  #material: TlsMaterial
  #tickets: TicketKeys
  #day = 0
  #staple: Staple | undefined

  constructor(material: TlsMaterial, terms: SecureTerms) {
    this.#terms = terms
    this.#material = material
    this.#tickets = this.#ticketsOf(material)
    setInterval(() => this.renewTicketKey(), RENEW_MS).unref()
  }

  /** Makes one that the caller tells where to listen. */
  open(connections: Connections<Exchange>): SecureHttpServer {
    const options: TlsOptions = {
      ...listenerOptions(this.#material, this.#terms),
      ticketKeys: this.#ticketKey(),
    }
    const server = createSecureHttpServer(connections, options)
    if (this.#terms.staples) server.staple(() => this.#stapleOfNow())
    this.#servers.push(server)
    return server
  }

  /** Puts a certificate in force for new connections. */
  enforce(material: TlsMaterial): void {
    this.#material = material
    this.#tickets = this.#ticketsOf(material)
    const ticketKeys = this.#ticketKey()
    for (const server of this.#servers) server.setSecureContext({ ...material.secure, ticketKeys })
  }

  /** Has it sent to new connections, while it holds. */
  staple(staple: Staple | undefined): void {
    this.#staple = staple
  }

  /** On a new day. */
  renewTicketKey(): void {
    if (this.#tickets.dayKey(this.#terms.clock()).day === this.#day) return
    const key = this.#ticketKey()
    for (const server of this.#servers) server.setTicketKeys(key)
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
