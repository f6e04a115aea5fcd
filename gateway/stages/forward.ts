import type { Duplex, Readable } from 'node:stream'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { answerHeaders, revokedSessions } from '../http/answer-headers.ts'
import { boundedBody } from '../http/bounded-body.ts'
import { bodyOf } from '../http/gather-body.ts'
import { lingerAfterAnswer } from '../http/linger.ts'
import { tunnel } from '../http/tunnel.ts'
import { upgradeHead } from '../http/websocket.ts'
import { type Refusal, type RefusalCode, refusal } from '../refusals.ts'
import type { Flight, UpstreamAnswer, UpstreamFault, UpstreamFaultKind } from '../upstream/door.ts'
import { isOrdinary, withMandatory, writeHead, writeWhole } from './answer.ts'
import { close } from './close.ts'
import { giveUp } from './refuse.ts'
import { upstreamHeaders } from './upstream-headers.ts'

/** Beyond it, to copy a body costs more than further parts of a write. */
const MAX_TEXT_BYTES = 16 * 1024

const REFUSAL_OF_FAULT: Readonly<Record<UpstreamFaultKind, RefusalCode>> = {
  unreachable: 'upstream_unreachable',
  timeout: 'upstream_timeout',
  broken: 'upstream_broken',
  malformed: 'upstream_malformed',
}

/** Sends an admitted request upstream and carries the answer back, streamed both ways. */
export function forward(gateway: Gateway, exchange: Exchange): void {
  const { req, res, headers, route } = exchange
  if (route === undefined) throw new Error('an exchange without a route cannot be forwarded')
  // RFC 9110 section 10.1.1: not without a body, and never to HTTP/1.0.
  const unread = headers.hasBody && exchange.gathered === undefined
  if (headers.expect !== undefined && unread && req.httpVersion === '1.1') res.writeContinue()
  const forwarding = new Forwarding(gateway, exchange)
  let body: Readable | null = exchange.gathered === undefined ? null : bodyOf(exchange.gathered)
  if (unread) {
    body =
      headers.contentLength !== undefined
        ? req
        : boundedBody(req, {
            maxBytes: route.maxBodyBytes,
            onExceeded: () => forwarding.give(refusal('body_too_large')),
          })
  }
  forwarding.flight = gateway.upstream.send(
    {
      method: exchange.method,
      target: exchange.path + exchange.query,
      headers: upstreamHeaders(gateway, exchange),
      body,
      upgrade: exchange.upgrade,
      totalMs: route.timeoutMs,
    },
    forwarding,
  )
  exchange.abandon = () => forwarding.flight?.abort()
}

/** The answer on its way back. */
class Forwarding implements UpstreamAnswer {
  readonly #gateway: Gateway
  readonly #exchange: Exchange
  readonly #sentSteadyMs: number
  flight: Flight | undefined = undefined
  #status = 0
  #bodiless = false
  /** Bytes of the announced body still to come; undefined when its end is not known beforehand. */
  #bytesLeft: number | undefined = undefined
  /** The head of a short answer waits for its body, to go out with it. */
  #waitingHead: readonly string[] | undefined = undefined
  #heldBack = false
  #bodyBegan = false

  constructor(gateway: Gateway, exchange: Exchange) {
    this.#gateway = gateway
    this.#exchange = exchange
    this.#sentSteadyMs = gateway.steadyClock()
  }

  /** RFC 9110 section 15.2: an interim answer is passed on, unless the client is too old to know any. */
  information(_status: number, rawHeaders: readonly string[]): void {
    const { req, res } = this.#exchange
    if (req.httpVersion === '1.0' || res.headersSent || this.#exchange.closed) return
    const links: string[] = []
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      if (rawHeaders[i]?.toLowerCase() === 'link') links.push(rawHeaders[i + 1] as string)
    }
    // Node checks the syntax and throws on a bad one: a hint is not worth an answer.
    if (links.length > 0) {
      try {
        res.writeEarlyHints({ link: links })
      } catch {
        this.#gateway.log.debug({ requestId: this.#exchange.requestId }, 'dropped a malformed early hint')
      }
    }
  }

  head(status: number, rawHeaders: readonly string[]): void {
    const { req, headers } = this.#exchange
    this.#status = status
    this.#gateway.metrics.upstreamAnswered(
      this.#upstream(),
      (this.#gateway.steadyClock() - this.#sentSteadyMs) / 1000,
    )
    for (const session of revokedSessions(rawHeaders)) this.#gateway.revocations.revoke(session)
    const head = answerHeaders(rawHeaders, status)
    this.#bodiless = req.method === 'HEAD' || status === 204 || status === 304
    this.#bytesLeft = this.#bodiless ? undefined : head.contentLength
    // The rest of an upload that nobody wants would be read as the next request.
    const unread = headers.hasBody && !req.complete
    if (unread) lingerAfterAnswer(req)
    if (unread || this.#gateway.load.draining) head.headers.push('Connection', 'close')
    if (this.#bytesLeft === 0) close(this.#gateway, this.#exchange, status)
    else if (this.#mayGoWhole(unread)) {
      this.#waitingHead = head.headers
      return
    }
    writeHead(this.#exchange, status, head.headers)
    // Who streams may have nothing to say for long; a head that comes with its body goes with it.
    if (!this.#bodiless && this.#bytesLeft === undefined) process.nextTick(flushHead, this)
  }

  /** Sends the head off, unless its body has. */
  flush(): void {
    const { res } = this.#exchange
    if (!this.#bodyBegan && !this.#exchange.closed) res.flushHeaders()
  }

  data(chunk: Buffer): boolean {
    if (this.#bodiless) return true
    const { res } = this.#exchange
    this.#bodyBegan = true
    if (this.#bytesLeft !== undefined) {
      this.#bytesLeft -= chunk.length
      // The client has the whole answer with this piece, so the trail must have it before.
      if (this.#bytesLeft <= 0) close(this.#gateway, this.#exchange, this.#status)
    }
    if (this.#waitingHead !== undefined) {
      const headers = this.#waitingHead
      this.#waitingHead = undefined
      if (this.#bytesLeft === 0) {
        const whole = { status: this.#status, headers, body: chunk.toString('latin1') }
        writeWhole(this.#gateway, this.#exchange, whole)
        return true
      }
      writeHead(this.#exchange, this.#status, [...headers])
    }
    const more = res.write(chunk)
    if (!more && !this.#heldBack) {
      this.#heldBack = true
      res.once('drain', () => {
        this.#heldBack = false
        this.flight?.resume()
      })
    }
    return more
  }

  end(): void {
    close(this.#gateway, this.#exchange, this.#status)
    this.#exchange.res.end()
  }

  /** Tunnels until either side ends. The exchange is over with the 101; its tunnel still counts against the cap. */
  upgrade(rawHeaders: readonly string[], upstreamSocket: Duplex): void {
    const { load } = this.#gateway
    const { res } = this.#exchange
    const socket = this.#exchange.req.socket
    close(this.#gateway, this.#exchange, 101)
    socket.write(upgradeHead(withMandatory(this.#exchange, answerHeaders(rawHeaders, 101).headers)), 'latin1')
    res.detachSocket(socket)
    socket.setTimeout(0)
    load.tunnels.add(socket)
    tunnel(socket, upstreamSocket, () => load.tunnels.delete(socket))
  }

  fault(fault: UpstreamFault): void {
    this.give(refusal(REFUSAL_OF_FAULT[fault.kind], { cause: fault.cause }))
  }

  give(refused: Refusal): void {
    // An answer of announced length that has come whole is whole, whatever the upstream does after it.
    if (this.#exchange.closed && this.#bytesLeft === 0) this.#exchange.res.end()
    else giveUp(this.#gateway, this.#exchange, refused)
  }

  #mayGoWhole(unread: boolean): boolean {
    const bytes = this.#bytesLeft
    if (bytes === undefined || bytes > MAX_TEXT_BYTES || unread || this.#gateway.load.draining) return false
    return isOrdinary(this.#exchange)
  }

  #upstream(): string {
    return this.flight?.upstream ?? ''
  }
}

function flushHead(forwarding: Forwarding): void {
  forwarding.flush()
}
