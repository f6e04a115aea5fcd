import type { Duplex } from 'node:stream'
import type { Exchange, OngoingForwarding } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { filterResponseHead, revokedSessions } from '../http/rules/response-headers.ts'
import type { Field } from '../http/syntax/field.ts'
import { type Refusal, type RefusalCode, refusal } from '../refusals.ts'
import type {
  UpstreamCall,
  UpstreamFault,
  UpstreamFaultKind,
  UpstreamResponse,
} from '../upstream/upstream-client.ts'
import type { Share } from '../upstream/upstream-places.ts'
import { close } from './close.ts'
import { giveUp } from './response/refuse.ts'
import { writeHead } from './response/write-response.ts'
import { openTunnel } from './tunnel.ts'

/** RFC 8288 section 3, as far as an early hint needs it. */
const LINK = /^<[^>]*>(?:\s*;\s*[^;"\s]+(?:=(")?[^;"\s]*\1)?)*$/

/** RFC 9110 section 9.2.1: these change nothing, so nothing is lost when they are broken off. */
const SAFE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
/** For the head of a response whose client has gone: enough to change a password, short for what nobody waits for. */
const HEAD_AFTER_CLIENT_MS = 5000

/** How often it is looked whether the session of a response that streams on still stands. */
const SESSION_LOOK_MS = 1000
const SESSION_ENDED = refusal('invalid_token', { cause: 'its session was revoked while it was sent' })

const REFUSAL_OF_FAULT: Readonly<Record<UpstreamFaultKind, RefusalCode>> = {
  unreachable: 'upstream_unreachable',
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

/** What is kept of an exchange whose client has gone. */
interface Orphaned {
  readonly share: Share
  readonly timer: NodeJS.Timeout
}

/** The answer on its way back. */
export class Forwarding implements UpstreamResponse, OngoingForwarding {
  readonly #gateway: Gateway
  readonly #exchange: Exchange
  readonly #sentSteadyMs: number
  call: UpstreamCall | undefined = undefined
  #status = 0
  #bodiless = false
  /** Bytes of the announced body still to come; undefined when its end is not known beforehand. */
  #bytesLeft: number | undefined = undefined
  #heldBack = false
  #bodyBegan = false
  /** This response itself ends sessions: that of its own caller must still hear of it. */
  #endsSessions = false
  #sessionLookMs: number
  /** The client has gone, and only the head is still waited for. */
  #orphaned: Orphaned | undefined = undefined

  constructor(gateway: Gateway, exchange: Exchange) {
    this.#gateway = gateway
    this.#exchange = exchange
    this.#sentSteadyMs = gateway.steadyClock()
    this.#sessionLookMs = this.#sentSteadyMs + SESSION_LOOK_MS
  }

  /** RFC 9110 section 15.2: an interim answer is passed on, unless the client is too old to know any. */
  information(_status: number, fields: readonly Field[]): void {
    const { req, res } = this.#exchange
    if (req.version === '1.0' || res.headersSent || this.#exchange.closed) return
    let lines = ''
    for (const { lower, value } of fields) {
      if (lower !== 'link') continue
      // A hint is not worth an answer.
      if (!LINK.test(value)) return
      lines += `Link: ${value}\r\n`
    }
    if (lines !== '') res.writeInterim(103, lines)
  }

  head(status: number, fields: readonly Field[]): void {
    const { req, res } = this.#exchange
    this.#status = status
    this.#gateway.metrics.upstreamAnswered(
      this.#upstream(),
      (this.#gateway.steadyClock() - this.#sentSteadyMs) / 1000,
    )
    const safe = this.#revoke(fields)
    if (this.#orphaned !== undefined) {
      this.abort()
      return
    }
    if (!safe) {
      this.give(SESSIONS_UNAVAILABLE)
      return
    }
    const limited = this.#exchange.limitHeaders.length > 0
    const head = filterResponseHead(fields, status, limited)
    this.#bodiless = req.method === 'HEAD' || status === 204 || status === 304
    this.#bytesLeft = this.#bodiless ? undefined : head.contentLength
    // The rest of an upload that nobody wants would be read as the next request.
    if (!req.complete || this.#gateway.load.phase !== 'serving') res.keepAlive = false
    if (this.#bytesLeft === 0) close(this.#gateway, this.#exchange, status)
    writeHead(this.#exchange, status, head)
    // Who streams may have nothing to say for long; a head that comes with its body goes with it.
    if (!this.#bodiless && this.#bytesLeft === undefined) process.nextTick(flushHead, this)
  }

  /** Sends the head off, unless its body has. */
  flush(): void {
    const { res } = this.#exchange
    if (!this.#bodyBegan && !this.#exchange.closed) res.flushHead()
  }

  data(chunk: Buffer): boolean {
    if (this.#bodiless) return true
    if (this.#bodyBegan && this.#hasSessionEnded()) {
      this.give(SESSION_ENDED)
      return false
    }
    const { res } = this.#exchange
    this.#bodyBegan = true
    if (this.#bytesLeft !== undefined) {
      this.#bytesLeft -= chunk.length
      // The client has the whole answer with this piece, so the trail must have it before.
      if (this.#bytesLeft <= 0) close(this.#gateway, this.#exchange, this.#status)
    }
    const more = res.write(chunk)
    if (!more && !this.#heldBack) {
      this.#heldBack = true
      res.onDrain(() => {
        this.#heldBack = false
        this.call?.resume()
      })
    }
    return more
  }

  end(): void {
    close(this.#gateway, this.#exchange, this.#status)
    this.#exchange.res.end()
  }

  upgrade(fields: readonly Field[], socket: Duplex): void {
    const refused = openTunnel(this.#gateway, this.#exchange, { fields, socket })
    if (refused === undefined) return
    socket.destroy()
    this.give(refused)
  }

  abort(): void {
    this.call?.abort()
    this.#endOrphaned()
  }

  /**
   * The service may have acted already, and say in its head which sessions that ended: it is heard for a moment, in the
   * place of the client, so that going away gives nobody more of them. What cannot have changed anything is given up.
   */
  clientGone(): void {
    const { req, share } = this.#exchange
    const mayAct = this.call?.sent === true && req.complete && !SAFE.has(req.method)
    if (!mayAct || this.#status !== 0 || share === undefined) {
      this.abort()
      return
    }
    this.#exchange.share = undefined
    this.#orphaned = { share, timer: setTimeout(() => this.abort(), HEAD_AFTER_CLIENT_MS) }
  }

  fault(fault: UpstreamFault): void {
    this.give(refusal(REFUSAL_OF_FAULT[fault.kind], { cause: fault.cause }))
  }

  give(refused: Refusal): void {
    // An answer of announced length that has come whole is whole, whatever the upstream does after it.
    if (this.#exchange.closed && this.#bytesLeft === 0) this.#exchange.res.end()
    else giveUp(this.#gateway, this.#exchange, refused)
  }

  #endOrphaned(): void {
    if (this.#orphaned === undefined) return
    clearTimeout(this.#orphaned.timer)
    this.#gateway.load.places.release(this.#orphaned.share)
    this.#orphaned = undefined
  }

  #hasSessionEnded(): boolean {
    const session = this.#exchange.principal?.session
    if (session === undefined || this.#endsSessions) return false
    const nowMs = this.#gateway.steadyClock()
    if (nowMs < this.#sessionLookMs) return false
    this.#sessionLookMs = nowMs + SESSION_LOOK_MS
    return this.#gateway.revocations.isRevoked(session)
  }

  /** @returns false when a crash would give a session back: then nobody is told that it has ended. */
  #revoke(fields: readonly Field[]): boolean {
    let safe = true
    for (const session of revokedSessions(fields)) {
      this.#endsSessions = true
      safe = this.#gateway.revocations.revoke(session) && safe
    }
    return safe
  }

  #upstream(): string {
    return this.call?.upstream ?? ''
  }
}

function flushHead(forwarding: Forwarding): void {
  forwarding.flush()
}
