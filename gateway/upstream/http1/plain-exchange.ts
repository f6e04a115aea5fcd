import type { Timed } from '../../http/syntax/deadlines.ts'
import type { Field } from '../../http/syntax/field.ts'
import { mayRetry } from '../balancing/retry.ts'
import type { ConnectError } from '../open-connection.ts'
import { switchesTo } from '../response-head.ts'
import { stepTimeout, totalTimeout, type WaitedFor } from '../timeout-faults.ts'
import type {
  UpstreamCall,
  UpstreamFault,
  UpstreamFaultKind,
  UpstreamRequest,
  UpstreamResponse,
} from '../upstream-client.ts'
import { contentLength, takeWhole } from '../whole-body.ts'
import type { PlainClientState, PlainOrigin } from './connection-pool.ts'
import type { ConnectionUser } from './connection-user.ts'
import { type BodySender, RequestBody } from './outgoing-body.ts'
import { requestHead } from './outgoing-head.ts'
import type { PlainConnection } from './plain-connection.ts'
import type { UpgradedStream } from './upgraded-stream.ts'
import type { Waiter } from './waiting-line.ts'

const CLOSED: UpstreamFault = { kind: 'unreachable', cause: 'the upstreams are being closed' }
const ALL_IN_USE: UpstreamFault = { kind: 'unreachable', cause: 'every connection is in use' }
const NONE_TRIED: readonly PlainOrigin[] = []
const NEVER = Number.POSITIVE_INFINITY

/**
 * One request and its response, retried on another connection where that is safe. The same object is the call that the
 * sender holds and the user of the connection: one allocation for each request. On an open connection the request is
 * written before `send` returns.
 */
export class PlainExchange implements UpstreamCall, Timed, ConnectionUser, BodySender, Waiter {
  slot = -1
  readonly #state: PlainClientState
  readonly #request: UpstreamRequest
  readonly #response: UpstreamResponse
  readonly #totalDeadlineMs: number
  #nowMs: number
  /** For the upstream to take the body, send its head or the next piece; NEVER while it is not its turn. */
  #idleDeadlineMs = NEVER
  #requestHead = ''
  #origin: PlainOrigin
  #connection: PlainConnection | undefined = undefined
  /** The downstream body when all of it had arrived; else `#body` streams it. */
  #wholeBody: Buffer | undefined = undefined
  #body: RequestBody | undefined = undefined
  /** Upstreams that could not be connected to. */
  #tried = NONE_TRIED
  sent = false
  #retried = false
  #isWaiting = false
  #headReceived = false
  #isPaused = false
  /** Complete, failed, upgraded or aborted: the response gets no further calls. */
  #over = false

  constructor(state: PlainClientState, request: UpstreamRequest, response: UpstreamResponse) {
    this.#state = state
    this.#request = request
    this.#response = response
    this.#nowMs = state.clock()
    this.#totalDeadlineMs = request.totalMs === undefined ? NEVER : this.#nowMs + request.totalMs
    this.#origin = state.first
  }

  get upstream(): string {
    return this.#origin.url
  }

  get method(): string {
    return this.#request.method
  }

  get hasBody(): boolean {
    return this.#request.body !== null
  }

  get upgrade(): string | undefined {
    return this.#request.upgrade
  }

  begin(): void {
    this.#state.deadlines.add(this)
    const fault = this.#state.closed ? CLOSED : this.#prepare()
    if (fault === undefined) this.#attempt(ALL_IN_USE)
    else this.#failLater(fault)
  }

  #prepare(): UpstreamFault | undefined {
    try {
      this.#requestHead = requestHead(this.#request)
      return undefined
    } catch (error) {
      return { kind: 'unreachable', cause: `the call cannot be sent: ${error}` }
    }
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    // The caller may be inside a callback of this or another response.
    process.nextTick(continueReading, this)
  }

  continueReading(): void {
    if (this.#over || this.#isPaused) return
    this.#idleDeadlineMs = this.#state.clock() + this.#request.idleMs
    this.#connection?.resume()
  }

  abort(): void {
    if (this.#over) return
    this.#finish()
    this.#dropConnection()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.#totalDeadlineMs) this.#abortWith(totalTimeout(this.#request.totalMs, this.#waitedFor))
    else if (nowMs >= this.#idleDeadlineMs) this.#abortWith(this.#stepTimeout())
  }

  get #waitedFor(): WaitedFor {
    if (this.#isPaused) return 'receiver'
    return this.#body?.heldBack === false ? 'sender' : 'upstream'
  }

  #stepTimeout(): UpstreamFault {
    const { connectMs, headersMs } = this.#state
    if (this.#isWaiting) return { kind: 'timeout', cause: `no connection became free within ${connectMs} ms` }
    const { idleMs } = this.#request
    const sending = this.#body !== undefined
    return stepTimeout({ headReceived: this.#headReceived, sending, headersMs, idleMs })
  }

  tryAgain(): void {
    this.#isWaiting = false
    this.#nowMs = this.#state.clock()
    this.#attempt(ALL_IN_USE)
  }

  /** @param fault the fault when no upstream is left. */
  #attempt(fault: UpstreamFault): void {
    this.sent = false
    this.#idleDeadlineMs = NEVER
    const connection = this.#lease()
    if (connection !== undefined) {
      this.#connection = connection
      this.#origin.inFlight += 1
      connection.assignTo(this)
    } else if (fault === ALL_IN_USE && !this.#state.waitingLine.isFull) {
      this.#isWaiting = true
      this.#idleDeadlineMs = this.#nowMs + this.#state.connectMs
      this.#state.waitingLine.add(this)
    } else this.#failLater(fault)
  }

  /** A connection to the next upstream that has one free and has not refused a connection yet. */
  #lease(): PlainConnection | undefined {
    const { choice } = this.#state
    let skipped = this.#tried
    for (let origin = choice.next(skipped); origin !== undefined; origin = choice.next(skipped)) {
      this.#origin = origin
      const connection = origin.pool.lease(this.#retried, this.#nowMs)
      if (connection !== undefined) return connection
      skipped = [...skipped, origin]
    }
    return undefined
  }

  connected(): void {
    const connection = this.#connection
    if (connection === undefined) return
    const { body: source, fields } = this.#request
    if (source === null) this.#write(connection, undefined)
    else if (this.#wholeBody === undefined && source.destroyed && !source.readableEnded)
      this.bodyFailed('the body was broken off')
    else {
      const bytes = contentLength(fields)
      this.#wholeBody ??= takeWhole(source, bytes)
      this.#write(connection, this.#wholeBody)
      if (this.#wholeBody !== undefined || !this.sent) return
      this.#body = new RequestBody(source, bytes, { socket: connection.socket, sender: this })
      this.#body.start()
    }
  }

  #write(connection: PlainConnection, body: Buffer | undefined): void {
    connection.write(this.#requestHead, body)
    this.sent = !connection.tookNothing
    if (this.sent && (body !== undefined || this.#request.body === null)) this.bodySent()
  }

  connectFailed(error: ConnectError): void {
    this.#tried = [...this.#tried, this.#origin]
    this.#detach()
    this.#nowMs = this.#state.clock()
    const kind = error.code === 'UPSTREAM_CONNECT_TIMEOUT' ? 'timeout' : 'unreachable'
    this.#attempt({ kind, cause: `${error.code}: ${error.message}` })
  }

  bodyHeldBack(): void {
    if (!this.#headReceived) this.#idleDeadlineMs = this.#state.clock() + this.#request.idleMs
  }

  bodyTaken(): void {
    if (!this.#headReceived) this.#idleDeadlineMs = NEVER
  }

  bodySent(): void {
    this.#body = undefined
    this.#connection?.sent()
    if (!this.#headReceived) this.#idleDeadlineMs = this.#state.clock() + this.#state.headersMs
  }

  /** May be called inside `send`, so the fault is reported later. */
  bodyFailed(cause: string): void {
    this.#dropConnection()
    this.#failLater({ kind: 'broken', cause })
  }

  interim(status: number, fields: readonly Field[]): void {
    if (status === 103) this.#response.information(status, fields)
  }

  head(status: number, fields: readonly Field[], nowMs: number): void {
    this.#headReceived = true
    this.#idleDeadlineMs = nowMs + this.#request.idleMs
    this.#origin.health.responded(status)
    this.#response.head(status, fields)
  }

  data(piece: Buffer, nowMs: number): boolean {
    this.#idleDeadlineMs = nowMs + this.#request.idleMs
    if (this.#response.data(piece)) return true
    this.#isPaused = true
    this.#idleDeadlineMs = NEVER
    return false
  }

  ended(): void {
    this.#finish()
    this.#detach()
    this.#response.end()
  }

  switched(fields: readonly Field[], socket: UpgradedStream): void {
    this.#finish()
    this.#detach()
    if (switchesTo(this.#request.upgrade ?? '', fields)) this.#response.upgrade(fields, socket)
    else {
      socket.destroy()
      this.#response.fault({ kind: 'malformed', cause: 'a switch to a protocol that was not asked for' })
    }
  }

  failed(kind: UpstreamFaultKind, cause: string): void {
    const responseBegan = this.#connection?.responseBegan ?? false
    this.#detach()
    const progress = { sent: this.sent, responseBegan, retried: this.#retried }
    if (mayRetry(kind, this.#request, progress)) {
      this.#retried = true
      this.#nowMs = this.#state.clock()
      this.#attempt({ kind, cause })
    } else {
      this.#origin.health.exchangeFailed()
      this.reportFault({ kind, cause })
    }
  }

  reportFault(fault: UpstreamFault): void {
    if (this.#over) return
    this.#finish()
    this.#response.fault(fault)
  }

  #failLater(fault: UpstreamFault): void {
    process.nextTick(reportFault, this, fault)
  }

  /** Ends the exchange by our own decision. */
  #abortWith(fault: UpstreamFault): void {
    if (fault.kind === 'timeout' && this.#connection !== undefined) this.#origin.health.exchangeFailed()
    this.abort()
    this.#response.fault(fault)
  }

  #finish(): void {
    this.#over = true
    this.#state.deadlines.remove(this)
    if (this.#isWaiting) this.#state.waitingLine.remove(this)
  }

  #dropConnection(): void {
    const connection = this.#connection
    this.#detach()
    connection?.destroy()
  }

  /** Detaches from the connection without closing it. */
  #detach(): void {
    if (this.#connection === undefined) return
    this.#connection = undefined
    this.#origin.inFlight -= 1
    this.#body?.stop()
    this.#body = undefined
  }
}

function reportFault(exchange: PlainExchange, fault: UpstreamFault): void {
  exchange.reportFault(fault)
}

function continueReading(exchange: PlainExchange): void {
  exchange.continueReading()
}
