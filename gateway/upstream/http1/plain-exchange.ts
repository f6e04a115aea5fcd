import type { Timed } from '../../http/syntax/deadlines.ts'
import type { Field } from '../../http/syntax/field.ts'
import { mayRetry } from '../balancing/retry.ts'
import { type Awaited, outOfPatience, outOfTotal } from '../out-of-time.ts'
import { switchesTo } from '../response-head.ts'
import type { ConnectError } from '../undici/undici-connection.ts'
import { contentLength, takeWhole } from '../undici/whole-body.ts'
import type {
  Flight,
  UpstreamAnswer,
  UpstreamCall,
  UpstreamFault,
  UpstreamFaultKind,
} from '../upstream-client.ts'
import type { Carried } from './connection-user.ts'
import { type BodySender, RequestBody } from './outgoing-body.ts'
import { requestHead } from './outgoing-head.ts'
import type { PlainConnection } from './plain-connection.ts'
import type { PlainOrigin, PlainTerms } from './plain-terms.ts'
import type { UpgradedStream } from './upgraded-stream.ts'
import type { Waiter } from './waiting-line.ts'

const CLOSED: UpstreamFault = { kind: 'unreachable', cause: 'the upstreams are being closed' }
const ALL_IN_USE: UpstreamFault = { kind: 'unreachable', cause: 'every connection is in use' }
const NONE_TRIED: readonly PlainOrigin[] = []
const NEVER = Number.POSITIVE_INFINITY

/**
 * One call and its answer, on one connection after the other. It is at once the flight and what a connection carries:
 * one object for a request. On a connection that stands the request is written before `send` returns; nothing is told
 * before.
 */
export class PlainExchange implements Flight, Timed, Carried, BodySender, Waiter {
  slot = -1
  readonly #terms: PlainTerms
  readonly #call: UpstreamCall
  readonly #answer: UpstreamAnswer
  readonly #totalDeadlineMs: number
  #nowMs: number
  /** For what the upstream has to do next: take the body, send its head or a piece; none while another is waited for. */
  #idleDeadlineMs = NEVER
  #requestHead = ''
  #origin: PlainOrigin
  #connection: PlainConnection | undefined = undefined
  /** The downstream body, when all of it was there; else it is streamed by `#body`. */
  #wholeBody: Buffer | undefined = undefined
  #body: RequestBody | undefined = undefined
  /** Upstreams that could not be connected to. */
  #tried = NONE_TRIED
  /** Writing the request to the present connection has begun. */
  sent = false
  #retried = false
  #waits = false
  #headTold = false
  #heldBack = false
  /** Whole, failed, upgraded or given up: nothing more is told. */
  #over = false

  constructor(terms: PlainTerms, call: UpstreamCall, answer: UpstreamAnswer) {
    this.#terms = terms
    this.#call = call
    this.#answer = answer
    this.#nowMs = terms.clock()
    this.#totalDeadlineMs = call.totalMs === undefined ? NEVER : this.#nowMs + call.totalMs
    this.#origin = terms.first
  }

  get upstream(): string {
    return this.#origin.url
  }

  get method(): string {
    return this.#call.method
  }

  get hasBody(): boolean {
    return this.#call.body !== null
  }

  get upgrade(): string | undefined {
    return this.#call.upgrade
  }

  begin(): void {
    this.#terms.deadlines.add(this)
    const fault = this.#terms.closed ? CLOSED : this.#prepare()
    if (fault === undefined) this.#attempt(ALL_IN_USE)
    else this.#tellLater(fault)
  }

  #prepare(): UpstreamFault | undefined {
    try {
      this.#requestHead = requestHead(this.#call)
      return undefined
    } catch (error) {
      return { kind: 'unreachable', cause: `the call cannot be sent: ${error}` }
    }
  }

  resume(): void {
    if (!this.#heldBack) return
    this.#heldBack = false
    // The caller may be in the middle of another answer, or of this one.
    process.nextTick(takeUp, this)
  }

  takeUp(): void {
    if (this.#over || this.#heldBack) return
    this.#idleDeadlineMs = this.#terms.clock() + this.#call.idleMs
    this.#connection?.resume()
  }

  abort(): void {
    if (this.#over) return
    this.#leave()
    this.#dropConnection()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.#totalDeadlineMs) this.#give(outOfTotal(this.#call.totalMs, this.#awaited))
    else if (nowMs >= this.#idleDeadlineMs) this.#give(this.#outOfPatience())
  }

  get #awaited(): Awaited {
    if (this.#heldBack) return 'receiver'
    return this.#body?.heldBack === false ? 'sender' : 'upstream'
  }

  #outOfPatience(): UpstreamFault {
    const { connectMs, headersMs } = this.#terms
    if (this.#waits) return { kind: 'timeout', cause: `no connection became free within ${connectMs} ms` }
    const { idleMs } = this.#call
    return outOfPatience({ headTold: this.#headTold, sending: this.#body !== undefined, headersMs, idleMs })
  }

  tryAgain(): void {
    this.#waits = false
    this.#nowMs = this.#terms.clock()
    this.#attempt(ALL_IN_USE)
  }

  /** @param fault what is told when no upstream is left. */
  #attempt(fault: UpstreamFault): void {
    this.sent = false
    this.#idleDeadlineMs = NEVER
    const connection = this.#lease()
    if (connection !== undefined) {
      this.#connection = connection
      this.#origin.inFlight += 1
      connection.carry(this)
    } else if (fault === ALL_IN_USE && !this.#terms.waiting.isFull) {
      this.#waits = true
      this.#idleDeadlineMs = this.#nowMs + this.#terms.connectMs
      this.#terms.waiting.add(this)
    } else this.#tellLater(fault)
  }

  /** A connection to the next upstream that has one for us, and that could be connected to so far. */
  #lease(): PlainConnection | undefined {
    const { choice } = this.#terms
    let passed = this.#tried
    for (let origin = choice.next(passed); origin !== undefined; origin = choice.next(passed)) {
      this.#origin = origin
      const connection = origin.connections.lease(this.#retried, this.#nowMs)
      if (connection !== undefined) return connection
      passed = [...passed, origin]
    }
    return undefined
  }

  connected(): void {
    const connection = this.#connection
    if (connection === undefined) return
    const { body: source, fields } = this.#call
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
    if (this.sent && (body !== undefined || this.#call.body === null)) this.bodySent()
  }

  unconnected(error: ConnectError): void {
    this.#tried = [...this.#tried, this.#origin]
    this.#letGo()
    this.#nowMs = this.#terms.clock()
    const kind = error.code === 'UPSTREAM_CONNECT_TIMEOUT' ? 'timeout' : 'unreachable'
    this.#attempt({ kind, cause: `${error.code}: ${error.message}` })
  }

  bodyHeldBack(): void {
    if (!this.#headTold) this.#idleDeadlineMs = this.#terms.clock() + this.#call.idleMs
  }

  bodyTaken(): void {
    if (!this.#headTold) this.#idleDeadlineMs = NEVER
  }

  bodySent(): void {
    this.#body = undefined
    this.#connection?.sent()
    if (!this.#headTold) this.#idleDeadlineMs = this.#terms.clock() + this.#terms.headersMs
  }

  /** Whoever broke it off may be in the middle of `send`. */
  bodyFailed(cause: string): void {
    this.#dropConnection()
    this.#tellLater({ kind: 'broken', cause })
  }

  interim(status: number, fields: readonly Field[]): void {
    if (status === 103) this.#answer.information(status, fields)
  }

  head(status: number, fields: readonly Field[], nowMs: number): void {
    this.#headTold = true
    this.#idleDeadlineMs = nowMs + this.#call.idleMs
    this.#origin.health.responded(status)
    this.#answer.head(status, fields)
  }

  data(piece: Buffer, nowMs: number): boolean {
    this.#idleDeadlineMs = nowMs + this.#call.idleMs
    if (this.#answer.data(piece)) return true
    this.#heldBack = true
    this.#idleDeadlineMs = NEVER
    return false
  }

  ended(): void {
    this.#leave()
    this.#letGo()
    this.#answer.end()
  }

  switched(fields: readonly Field[], socket: UpgradedStream): void {
    this.#leave()
    this.#letGo()
    if (switchesTo(this.#call.upgrade ?? '', fields)) this.#answer.upgrade(fields, socket)
    else {
      socket.destroy()
      this.#answer.fault({ kind: 'malformed', cause: 'a switch to a protocol that was not asked for' })
    }
  }

  failed(kind: UpstreamFaultKind, cause: string): void {
    const answerBegan = this.#connection?.answerBegan ?? false
    this.#letGo()
    const { method, body, upgrade } = this.#call
    const attempted = {
      method,
      hasBody: body !== null,
      upgrade: upgrade !== undefined,
      sent: this.sent,
      answerBegan,
      retried: this.#retried,
    }
    if (mayRetry(undefined, kind, attempted)) {
      this.#retried = true
      this.#nowMs = this.#terms.clock()
      this.#attempt({ kind, cause })
    } else {
      this.#origin.health.brokeDown()
      this.tell({ kind, cause })
    }
  }

  tell(fault: UpstreamFault): void {
    if (this.#over) return
    this.#leave()
    this.#answer.fault(fault)
  }

  #tellLater(fault: UpstreamFault): void {
    process.nextTick(tell, this, fault)
  }

  /** Fails the exchange by our own decision. */
  #give(fault: UpstreamFault): void {
    if (fault.kind === 'timeout' && this.#connection !== undefined) this.#origin.health.brokeDown()
    this.abort()
    this.#answer.fault(fault)
  }

  #leave(): void {
    this.#over = true
    this.#terms.deadlines.remove(this)
    if (this.#waits) this.#terms.waiting.remove(this)
  }

  #dropConnection(): void {
    const connection = this.#connection
    this.#letGo()
    connection?.destroy()
  }

  /** The connection is no affair of ours any more: it goes its own way. */
  #letGo(): void {
    if (this.#connection === undefined) return
    this.#connection = undefined
    this.#origin.inFlight -= 1
    this.#body?.stop()
    this.#body = undefined
  }
}

function tell(exchange: PlainExchange, fault: UpstreamFault): void {
  exchange.tell(fault)
}

function takeUp(exchange: PlainExchange): void {
  exchange.takeUp()
}
