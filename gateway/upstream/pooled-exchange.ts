import type { Readable, Writable } from 'node:stream'
import { takeWhole } from '../edge/bodies/buffered-body.ts'
import { revokedSessions } from '../edge/rules/response-headers.ts'
import type { Deadlines, Timed } from '../edge/syntax/deadlines.ts'
import type { Field } from '../edge/syntax/field.ts'
import type { Choice } from './balancing/choice.ts'
import { CountedAttempts } from './balancing/counted-attempts.ts'
import type { Origin } from './balancing/origin.ts'
import { isOfUpstream, isRepeatable, type RetryBudget } from './balancing/retry-budget.ts'
import type { Pool } from './pool.ts'
import { type BodySender, contentLength, type StreamedBody } from './request-body.ts'
import type {
  UpstreamCall,
  UpstreamFault,
  UpstreamFaultKind,
  UpstreamRequest,
  UpstreamResponse,
} from './upstream-client.ts'

export const ALL_IN_USE: UpstreamFault = { kind: 'unreachable', cause: 'every connection is in use' }
const CLOSED: UpstreamFault = { kind: 'unreachable', cause: 'the upstreams are being closed' }
const NEVER = Number.POSITIVE_INFINITY
const NONE_TRIED: readonly never[] = []

export interface ClientState<OwnPool> {
  readonly clock: () => number
  readonly headersMs: number
  readonly choice: Choice<Origin<OwnPool>>
  readonly retries: RetryBudget | undefined
  readonly deadlines: Deadlines
  /** True when no exchange may start any more. */
  closed: boolean
}

/**
 * One request and its response, retried where that is safe. It is both the sender's call and the connection's user, so
 * each request needs one allocation only.
 */
export abstract class PooledExchange<Connection extends Timed, OwnPool extends Pool<Connection>>
  extends CountedAttempts<OwnPool>
  implements UpstreamCall, Timed, BodySender
{
  slot = -1
  sent = false
  protected readonly state: ClientState<OwnPool>
  readonly request: UpstreamRequest
  protected readonly response: UpstreamResponse
  protected connection: Connection | undefined = undefined
  /** The downstream body, if all of it had arrived; else `body` streams it. */
  #wholeBody: Buffer | undefined = undefined
  protected body: StreamedBody<Writable> | undefined = undefined
  /** When the upstream must have done its next step. */
  protected idleDeadlineMs = NEVER
  protected nowMs: number
  protected headReceived = false
  /** True when the response gets no further calls. */
  protected over = false
  readonly #totalDeadlineMs: number
  #tried: readonly Origin<OwnPool>[] = NONE_TRIED
  #retried = false
  #isPaused = false
  #resends = 0
  #awaitsResend = false
  /** The upstream whose response caused the last retry. It is asked again only when there is no other. */
  #unwanted: Origin<OwnPool> | undefined = undefined

  constructor(state: ClientState<OwnPool>, request: UpstreamRequest, response: UpstreamResponse) {
    super(state.choice.first)
    this.state = state
    this.request = request
    this.response = response
    this.nowMs = state.clock()
    this.#totalDeadlineMs = request.totalMs === undefined ? NEVER : this.nowMs + request.totalMs
  }

  /** Called again when fields have changed. @throws Error when the head cannot be sent */
  protected abstract writeHead(): void
  protected abstract use(connection: Connection): void
  /** @returns true when the body may be streamed */
  protected abstract send(whole: Buffer | undefined): boolean
  protected abstract streamOf(source: Readable, bytes: number | undefined): StreamedBody<Writable>
  abstract bodySent(): void
  protected abstract resumeReading(): void
  protected abstract dropConnection(): void

  get upstream(): string {
    return this.chosenOrigin.url
  }

  begin(): void {
    try {
      this.writeHead()
    } catch (error) {
      this.failLater({ kind: 'unreachable', cause: `the call cannot be sent: ${error}` })
      return
    }
    this.state.deadlines.add(this)
    this.state.retries?.deposit()
    if (this.state.closed) this.failLater(CLOSED)
    else this.attempt(ALL_IN_USE)
  }

  connected(): void {
    const { body: source } = this.request
    if (source === null) this.send(undefined)
    else if (Buffer.isBuffer(source)) this.send(source)
    else if (this.#wholeBody === undefined && source.destroyed && !source.readableEnded)
      this.bodyFailed('the body was broken off')
    else {
      const bytes = contentLength(this.request)
      this.#wholeBody ??= takeWhole(source, bytes)
      if (!this.send(this.#wholeBody) || this.#wholeBody !== undefined) return
      this.body = this.streamOf(source, bytes)
      this.body.start()
    }
  }

  protected get isSending(): boolean {
    return this.body !== undefined
  }

  protected get awaitsSender(): boolean {
    return this.body?.heldBack === false
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    // The caller may be inside a callback of a response.
    process.nextTick(continueReading, this)
  }

  continueReading(): void {
    if (this.over || this.#isPaused) return
    this.idleDeadlineMs = this.state.clock() + this.request.idleMs
    this.resumeReading()
  }

  abort(): void {
    if (this.over) return
    this.finish()
    this.dropConnection()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.idleDeadlineMs && this.idleDeadlineMs <= this.#totalDeadlineMs) {
      this.abortWith(this.stepFault())
    } else if (nowMs >= this.#totalDeadlineMs) this.abortWith(this.#totalFault())
  }

  /** Blames the side that had to act next. */
  #totalFault(): UpstreamFault {
    const { totalMs, isTotalOfClient = false } = this.request
    const fault = (kind: UpstreamFaultKind, words: string, isNeutral = isTotalOfClient) => ({
      kind,
      cause: `not over within ${totalMs} ms: ${words}`,
      isNeutral,
    })
    if (this.#isPaused) return fault('unread', 'the receiver held the response back')
    if (this.awaitsSender) return fault('unsent', 'the rest of the request body did not come')
    if (!this.headReceived) return fault('timeout', 'the upstream did not respond')
    return fault('timeout', 'the response was still coming', true)
  }

  /** Blames the upstream, unless it may be waiting for the body. */
  protected stepFault(headersMs = this.state.headersMs): UpstreamFault {
    const { idleMs } = this.request
    if (this.headReceived && this.awaitsSender)
      return {
        kind: 'unsent',
        cause: `nothing more of the request body or of the response came within ${idleMs} ms`,
      }
    if (this.headReceived) return { kind: 'timeout', cause: `no piece of the body within ${idleMs} ms` }
    const cause = this.isSending
      ? `nothing of the request body was taken within ${idleMs} ms`
      : `no head within ${headersMs} ms`
    return { kind: 'timeout', cause }
  }

  /** @param fault reported when no upstream is left */
  protected attempt(fault: UpstreamFault): void {
    this.sent = false
    this.idleDeadlineMs = NEVER
    this.connection =
      this.#unwanted === undefined
        ? this.#lease(this.#tried)
        : (this.#lease([...this.#tried, this.#unwanted]) ?? this.#lease(this.#tried))
    if (this.connection !== undefined) {
      if (this.request.namesTarget === true) this.writeHead()
      this.use(this.connection)
    } else this.failLater(fault === ALL_IN_USE ? this.#whyNone() : fault)
  }

  #whyNone(): UpstreamFault {
    const { waitMs } = this.state.choice
    if (waitMs === undefined) return ALL_IN_USE
    return { kind: 'unavailable', cause: 'every circuit breaker is open', retryAfterMs: waitMs }
  }

  /** Takes a free connection of the next untried upstream. */
  #lease(tried: readonly Origin<OwnPool>[]): Connection | undefined {
    const { choice } = this.state
    let skipped = tried
    for (let origin = choice.next(skipped); origin !== undefined; origin = choice.next(skipped)) {
      this.chosenOrigin = origin
      const connection = origin.pool.lease(this.#retried, this.nowMs)
      if (connection !== undefined) {
        this.attemptBegan()
        if (this.request.attempts?.began(origin.url) === true) this.writeHead()
        return connection
      }
      skipped = [...skipped, origin]
    }
    return undefined
  }

  /** Nothing was sent, so another upstream is tried. */
  connectFailed(fault: UpstreamFault): void {
    const { retries, choice } = this.state
    this.attemptRefused()
    this.request.attempts?.failed(fault.kind)
    this.#tried = [...this.#tried, this.chosenOrigin]
    this.detach()
    if (retries !== undefined && !choice.hasAny(this.#tried)) {
      this.#resendOver('failed')
      if (this.#mayResend(retries, NONE_TRIED)) this.#tried = NONE_TRIED
    }
    this.nowMs = this.state.clock()
    this.attempt(fault)
  }

  /**
   * Sends the request again, once, where that is safe (RFC 9110 section 9.2.2): if nothing was written, or the method
   * is safe and there was neither a body nor a byte of a response.
   */
  protected connectionLost(
    fault: UpstreamFault,
    { sent, responseBegan }: { readonly sent: boolean; readonly responseBegan: boolean },
  ): void {
    const isOnce = !sent || (!responseBegan && isRepeatable(this.request))
    const again = isOnce && fault.kind === 'broken' && !this.#retried
    if (!again && isOfUpstream(fault)) this.attemptFailed()
    this.detach()
    this.request.attempts?.failed(fault.kind)
    if (again) {
      this.#retried = true
      this.nowMs = this.state.clock()
      this.attempt(fault)
    } else this.reportFault(fault)
  }

  protected awaitHead(): void {
    if (!this.headReceived) this.idleDeadlineMs = this.state.clock() + this.state.headersMs
  }

  bodyHeldBack(): void {
    if (!this.headReceived) this.idleDeadlineMs = this.state.clock() + this.request.idleMs
  }

  bodyFailed(cause: string): void {
    this.dropConnection()
    this.failLater({ kind: 'broken', cause })
  }

  /** After an early head, the upstream may wait for the body. A response that is held back has no deadline. */
  bodyPassed(): void {
    if (this.headReceived && this.idleDeadlineMs !== NEVER)
      this.idleDeadlineMs = this.state.clock() + this.request.idleMs
  }

  bodyTaken(): void {
    if (!this.headReceived) this.idleDeadlineMs = NEVER
  }

  interim(status: number, fields: readonly Field[]): void {
    // The gateway itself sends 100 where a client expects it.
    if (status !== 100) this.response.information(status, fields)
  }

  head(status: number, fields: readonly Field[], nowMs: number): void {
    this.attemptResponded(status)
    if (this.state.retries !== undefined && this.#isSentAgain(this.state.retries, status, fields)) return
    this.headReceived = true
    this.idleDeadlineMs = nowMs + this.request.idleMs
    this.response.head(status, fields)
  }

  #isSentAgain(retries: RetryBudget, status: number, fields: readonly Field[]): boolean {
    // A response that ends a session must be passed on.
    const isUnwanted = retries.statuses.has(status) && revokedSessions(fields).length === 0
    this.#resendOver(isUnwanted ? 'failed' : 'succeeded')
    if (!isUnwanted || !isRepeatable(this.request) || !this.#mayResend(retries, this.#tried)) return false
    this.request.attempts?.failed(String(status), status)
    this.dropConnection()
    this.#unwanted = this.chosenOrigin
    this.nowMs = this.state.clock()
    this.attempt(ALL_IN_USE)
    return true
  }

  #mayResend(retries: RetryBudget, tried: readonly Origin<OwnPool>[]): boolean {
    if (this.#resends >= retries.attempts || !this.state.choice.hasAny(tried) || !retries.take()) return false
    this.#resends += 1
    this.#awaitsResend = true
    return true
  }

  #resendOver(outcome: 'succeeded' | 'failed'): void {
    if (!this.#awaitsResend) return
    this.#awaitsResend = false
    this.state.retries?.onOutcome(outcome)
  }

  data(piece: Buffer, nowMs: number): boolean {
    this.idleDeadlineMs = nowMs + this.request.idleMs
    if (this.response.data(piece)) return true
    this.#isPaused = true
    this.idleDeadlineMs = NEVER
    return false
  }

  get isHolding(): boolean {
    return this.response.isHolding
  }

  ended(trailers?: readonly Field[]): void {
    this.finish()
    this.detach()
    this.response.end(trailers)
  }

  /** Called at a 101. If the request was sent again, the retry has then succeeded. */
  protected upgraded(): void {
    this.attemptResponded(101)
    this.#resendOver('succeeded')
    this.finish()
    this.detach()
  }

  protected abortWith(fault: UpstreamFault): void {
    if (isOfUpstream(fault) && this.connection !== undefined) this.attemptFailed()
    this.abort()
    this.response.fault(fault)
  }

  /** Reports the fault later, because `send` may not have returned yet. */
  protected failLater(fault: UpstreamFault): void {
    process.nextTick(() => this.reportFault(fault))
  }

  protected reportFault(fault: UpstreamFault): void {
    if (this.over) return
    this.finish()
    this.response.fault(fault)
  }

  protected finish(): void {
    this.over = true
    this.#resendOver('failed')
    this.state.deadlines.remove(this)
  }

  /** Does not close the connection. */
  protected detach(): Connection | undefined {
    const { connection } = this
    this.body?.stop()
    this.body = undefined
    if (connection === undefined) return undefined
    this.connection = undefined
    this.attemptOver()
    return connection
  }
}

function continueReading(exchange: { continueReading(): void }): void {
  exchange.continueReading()
}
