import type { Duplex } from 'node:stream'
import type { Lapse } from '../../edge/http1/tunnels.ts'
import { grpcStatusIn, grpcStatusOfHttp } from '../../edge/rules/grpc.ts'
import { filterResponseHead, revokedSessions } from '../../edge/rules/response-headers.ts'
import { filterResponseTrailers } from '../../edge/rules/trailers.ts'
import { type Field, valueIn } from '../../edge/syntax/field.ts'
import { isBodiless } from '../../edge/syntax/status-codes.ts'
import type { Exchange, OngoingForwarding } from '../../exchange.ts'
import type { Gateway } from '../../gateway.ts'
import type { KeyedExchange } from '../../idempotency/keyed-exchange.ts'
import { type Refusal, type RefusalCode, refusal } from '../../refusals.ts'
import type {
  UpstreamCall,
  UpstreamFault,
  UpstreamFaultKind,
  UpstreamResponse,
} from '../../upstream/upstream-client.ts'
import { close } from '../close.ts'
import { keptFields } from '../idempotency/kept-fields.ts'
import { giveUp } from '../response/refuse.ts'
import { countUnsigned, type HeldResponse, holdResponse, signResponse } from '../response/sign-response.ts'
import { writeHead } from '../response/write-response.ts'
import { releasePermit } from '../take-permit.ts'
import { lapseOf, openTunnel } from './tunnel.ts'

/** A link (RFC 8288 section 3) of an early hint. No character fits two places here, so a wrong value fails fast. */
const LINK = /<[^>]*>(?:\s*;\s*[^=;,"\s]+(?:=(?:"(?:[^"\\]|\\.)*"|[^;,"\s]*))?)*/.source
const LINKS = new RegExp(`^${LINK}(?:\\s*,\\s*${LINK})*$`)

/** Fields of resumable uploads (draft-ietf-httpbis-resumable-upload). */
const UPLOAD_FIELD = /^(?:location|upload-[a-z-]+)$/

/** Methods that change nothing (RFC 9110 section 9.2.1), so that their requests can be cancelled. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
/** Time to wait for the head of a response whose client has gone: long enough for a password change. */
const HEAD_AFTER_CLIENT_MS = 5000
/** A client that leaves sooner has changed its mind, and does not count as unanswered. */
const UNANSWERED_AFTER_MS = 1000

const LAPSE_CHECK_MS = 1000
const REFUSAL_OF_LAPSE: Readonly<Record<Lapse, Refusal>> = {
  session_revoked: refusal('invalid_token', { cause: 'its session was revoked while the request was sent' }),
  token_expired: refusal('invalid_token', { cause: 'the token expired while the request was sent' }),
  certificate_refused: refusal('invalid_certificate', {
    cause: 'the client certificate became invalid while the request was sent',
  }),
}

const REFUSAL_OF_FAULT: Readonly<Record<UpstreamFaultKind, RefusalCode>> = {
  unreachable: 'upstream_unreachable',
  unavailable: 'upstream_unavailable',
  timeout: 'upstream_timeout',
  broken: 'upstream_broken',
  malformed: 'upstream_malformed',
  unread: 'response_timeout',
  unsent: 'request_timeout',
}

const SESSIONS_UNAVAILABLE = refusal('sessions_unavailable', {
  headers: ['Retry-After', '5'],
  cause: 'the end of a session cannot be written',
})

export class Forwarding implements UpstreamResponse, OngoingForwarding {
  readonly #gateway: Gateway
  readonly #exchange: Exchange
  readonly #sentSteadyMs: number
  call: UpstreamCall | undefined = undefined
  status = 0
  #bodiless = false
  /** Undefined: the length is not announced. */
  #bytesLeft: number | undefined = undefined
  #isPaused = false
  #bodyBegan = false
  /** True when the response ends sessions: it is delivered even if it ends the caller's own. */
  #endsSessions = false
  #nextLapseCheckMs: number
  /** Set once the forwarding goes on without its client. */
  #orphaned: { readonly permitHolder: string; readonly timer: NodeJS.Timeout | undefined } | undefined =
    undefined
  #held: HeldResponse | undefined = undefined
  /** Stays when the client has gone, unlike `keyed` of the exchange. */
  readonly #keyed: KeyedExchange | undefined
  onEnd: (() => void) | undefined = undefined

  constructor(gateway: Gateway, exchange: Exchange) {
    this.#gateway = gateway
    this.#exchange = exchange
    this.#keyed = exchange.keyed
    this.#sentSteadyMs = gateway.steadyClock()
    this.#nextLapseCheckMs = this.#sentSteadyMs + LAPSE_CHECK_MS
  }

  get isSent(): boolean {
    return this.call?.sent === true
  }

  /** Passes on an interim response (RFC 9110 section 15.2), unless the client is of HTTP/1.0. */
  information(status: number, fields: readonly Field[]): void {
    const { req, res } = this.#exchange
    if (req.version === '1.0' || res.headersSent || this.#exchange.closed) return
    let lines = ''
    for (const { lower, value, line } of fields) {
      if (lower === 'link' && LINKS.test(value)) lines += `Link: ${value}\r\n`
      else if (UPLOAD_FIELD.test(lower)) lines += line
    }
    if (lines !== '' || status !== 103) res.writeInterim(status, lines)
  }

  head(status: number, fields: readonly Field[]): void {
    const { req, res } = this.#exchange
    this.status = status
    this.#exchange.trace?.responded(status)
    if (this.#exchange.grpcStatus !== undefined)
      this.#exchange.grpcStatus = grpcStatusIn(fields) ?? grpcStatusOfHttp(status)
    this.#gateway.metrics.gateway_upstream_request_duration_seconds.observe(
      (this.#gateway.steadyClock() - this.#sentSteadyMs) / 1000,
      this.call?.upstream ?? '',
    )
    const safe = this.#revoke(fields)
    this.#keyed?.head(status, keptFields(fields), (valueIn(fields, 'retry-after') ?? '') !== '')
    if (this.#orphaned !== undefined) {
      if (this.#keyed === undefined) this.abort()
      return
    }
    if (!safe) {
      this.give(SESSIONS_UNAVAILABLE)
      return
    }
    const head = filterResponseHead(fields, status, this.#exchange, this.#exchange.route?.forwarded)
    this.#bodiless = isBodiless(req.method, status)
    this.#bytesLeft = this.#bodiless ? undefined : head.contentLength
    // The rest of an unread upload would be parsed as the next request.
    if (!req.complete || this.#gateway.load.phase !== 'serving') res.keepAlive = false
    this.#held = holdResponse(this.#gateway, this.#exchange, head, this.#bodiless)
    if (this.#held !== undefined) return
    if (this.#bytesLeft === 0) this.#close()
    writeHead(this.#gateway, this.#exchange, status, head)
    // A stream may send its first byte late. A body that is there already goes out together with the head.
    if (!this.#bodiless && this.#bytesLeft === undefined) process.nextTick(flushHead, this.#exchange)
  }

  data(chunk: Buffer): boolean {
    if (this.#bodiless) return true
    this.#keyed?.add(chunk)
    if (this.#orphaned !== undefined) return true
    const lapse = this.#bodyBegan ? this.#lapse() : undefined
    if (lapse !== undefined) {
      if (this.#keyed !== undefined) this.#orphan()
      giveUp(this.#gateway, this.#exchange, REFUSAL_OF_LAPSE[lapse])
      return this.#orphaned !== undefined
    }
    const { res } = this.#exchange
    this.#bodyBegan = true
    if (this.#held !== undefined) {
      if (this.#held.add(chunk)) return true
      this.#sendUnsigned(this.#held)
    }
    if (this.#bytesLeft !== undefined) {
      this.#bytesLeft -= chunk.length
      // The audit record comes first.
      if (this.#bytesLeft <= 0) this.#close()
    }
    const more = res.write(chunk) || this.#keyed?.isKeeping === true
    if (!more && !this.#isPaused) {
      this.#isPaused = true
      res.onDrain(() => {
        this.#isPaused = false
        this.call?.resume()
      })
    }
    return more
  }

  get isHolding(): boolean {
    return this.#exchange.res.isHolding
  }

  end(trailers?: readonly Field[]): void {
    if (trailers !== undefined && !this.#revoke(trailers)) {
      this.give(SESSIONS_UNAVAILABLE)
      return
    }
    if (trailers !== undefined && this.#exchange.grpcStatus !== undefined)
      this.#exchange.grpcStatus = grpcStatusIn(trailers) ?? this.#exchange.grpcStatus
    if (this.#orphaned !== undefined) {
      this.#keyed?.complete()
      this.#endOrphan()
      return
    }
    if (this.#held === undefined) this.#close()
    else this.#sendSigned(this.#held)
    const { res, route } = this.#exchange
    if (trailers === undefined) res.end()
    else res.end(filterResponseTrailers(trailers, route?.forwarded))
  }

  #sendSigned({ head: unsigned, body }: HeldResponse): void {
    const status = this.status
    const head = signResponse(this.#gateway, this.#exchange, { status, head: unsigned, body })
    this.#close()
    writeHead(this.#gateway, this.#exchange, status, head)
    this.#exchange.res.write(body)
  }

  #sendUnsigned({ head, body }: HeldResponse): void {
    this.#held = undefined
    countUnsigned(this.#gateway, this.#exchange)
    if (this.#bytesLeft !== undefined) this.#bytesLeft -= body.length
    writeHead(this.#gateway, this.#exchange, this.status, head)
    this.#exchange.res.write(body)
  }

  upgrade(fields: readonly Field[], socket: Duplex): void {
    this.#exchange.trace?.responded(101)
    const refused = this.#revoke(fields)
      ? openTunnel(this.#gateway, this.#exchange, { fields, socket })
      : SESSIONS_UNAVAILABLE
    if (refused === undefined) return
    socket.destroy()
    this.give(refused)
  }

  abort(): void {
    this.call?.abort()
    this.#endOrphan()
  }

  #endOrphan(): void {
    if (this.#orphaned === undefined) return
    clearTimeout(this.#orphaned.timer)
    this.#gateway.load.orphans.delete(this)
    releasePermit(this.#gateway, this.#exchange, this.#orphaned.permitHolder)
    this.#orphaned = undefined
    this.#exchange.orphan = undefined
    const { delivery } = this.#exchange
    if (delivery !== undefined)
      this.#gateway.deliveries.end(delivery, this.status >= 200 && this.status < 300)
    this.#keyed?.settle(this.isSent)
    this.onEnd?.()
  }

  #close(): void {
    this.#keyed?.complete()
    close(this.#gateway, this.#exchange, this.status)
  }

  /**
   * Waits for the response head for a moment, because the service may have acted and the head may revoke sessions. With
   * an idempotency key, it waits for the whole response, because the client will ask for it.
   */
  clientGone(): void {
    const { req, grpcStatus } = this.#exchange
    const waitedMs = this.#gateway.steadyClock() - this.#sentSteadyMs
    if (this.status === 0 && req.complete && waitedMs > UNANSWERED_AFTER_MS)
      this.#gateway.metrics.gateway_upstream_unanswered_total.count(this.call?.upstream ?? '')
    // A gRPC client that leaves expects the service to cancel the call.
    const mayHaveActed =
      this.call?.sent === true && req.complete && !SAFE.has(req.method) && grpcStatus === undefined
    if (this.#keyed !== undefined || (mayHaveActed && this.status === 0)) this.#orphan()
    else this.abort()
  }

  #orphan(): void {
    const { load } = this.#gateway
    const { permitHolder } = this.#exchange
    if (permitHolder === undefined || load.phase === 'over') {
      this.abort()
      return
    }
    this.#exchange.permitHolder = undefined
    this.#exchange.keyed = undefined
    this.#exchange.forwarding = undefined
    this.#exchange.orphan = this
    this.#held = undefined
    load.orphans.add(this)
    const abort = () => this.abort()
    const timer = this.#keyed === undefined ? setTimeout(abort, HEAD_AFTER_CLIENT_MS) : undefined
    this.#orphaned = { permitHolder, timer }
    if (this.#isPaused) this.call?.resume()
  }

  fault({ kind, cause, retryAfterMs }: UpstreamFault): void {
    this.#exchange.trace?.failed(kind)
    const headers =
      retryAfterMs === undefined ? [] : ['Retry-After', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))]
    this.give(refusal(REFUSAL_OF_FAULT[kind], { headers, cause }))
  }

  give(refused: Refusal): void {
    if (this.#orphaned !== undefined) this.abort()
    // The response is complete with its last byte, whatever the upstream does afterwards.
    else if (this.#exchange.closed && this.#bytesLeft === 0) this.#exchange.res.end()
    else giveUp(this.#gateway, this.#exchange, refused)
  }

  #lapse(): Lapse | undefined {
    const { principal, needsCertificate } = this.#exchange
    if (principal === undefined || this.#endsSessions) return undefined
    const nowMs = this.#gateway.steadyClock()
    if (nowMs < this.#nextLapseCheckMs) return undefined
    this.#nextLapseCheckMs = nowMs + LAPSE_CHECK_MS
    const lapse = lapseOf(this.#gateway, this.#exchange, needsCertificate)
    // A response of known length ends soon.
    return lapse === 'token_expired' && this.#bytesLeft !== undefined ? undefined : lapse
  }

  /** @returns false when a crash would undo the revocation, so the client must not be told */
  #revoke(fields: readonly Field[]): boolean {
    let safe = true
    for (const session of revokedSessions(fields)) {
      this.#endsSessions = true
      safe = this.#gateway.revocations.revoke(session) && safe
    }
    return safe
  }
}

function flushHead({ res, closed }: Exchange): void {
  if (!closed) res.flushHead()
}
