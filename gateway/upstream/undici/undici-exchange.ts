import type { Duplex, Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Timed } from '../../http/syntax/deadlines.ts'
import type { Field } from '../../http/syntax/field.ts'
import { mayRetry } from '../balancing/retry.ts'
import { Berth } from '../balancing/upstream-lease.ts'
import { type Awaited, outOfPatience, outOfTotal } from '../out-of-time.ts'
import { bodyFraming, isStatus, receivedFields, switchesTo } from '../response-head.ts'
import { hasReadBody, mayLeaveBody } from '../unread-body.ts'
import type { Flight, UpstreamAnswer, UpstreamCall, UpstreamFault } from '../upstream-client.ts'
import type { Terms } from '../upstream-terms.ts'
import { ConnectError } from './undici-connection.ts'
import { faultOf } from './undici-faults.ts'
import type { LanedOrigin } from './undici-pool.ts'
import { Upload } from './upload.ts'
import { contentLength, takeWhole } from './whole-body.ts'

const GIVEN_UP = new Error('the exchange was given up')
const CLOSED: UpstreamFault = { kind: 'unreachable', cause: 'the upstreams are being closed' }
const NEVER = Number.POSITIVE_INFINITY
const ALL_IN_USE: UpstreamFault = { kind: 'unreachable', cause: 'every connection is in use' }

/**
 * One call and its answer. It is at once the flight, and what undici calls the options and the handler of a dispatch:
 * one object for a request.
 *
 * undici is only ever called from a fresh turn (`process.nextTick`): it may fail at once, when `send` has not returned
 * yet, and it must not be entered again while its parser, of which there is one for all connections, is telling.
 */
export class UpstreamExchange implements Flight, Timed, Dispatcher.DispatchHandler {
  readonly path: string
  readonly method: string
  readonly headers: string[]
  /** What is left to take of `#source` is in it, once the first attempt begins. */
  body: Readable | Buffer | null = null
  readonly upgrade: string | null
  /** Whether undici asks for the end of the connection; by itself it would do so after each HEAD. */
  readonly reset: boolean
  readonly blocking = false

  readonly #terms: Terms<LanedOrigin>
  readonly #answer: UpstreamAnswer
  readonly #berth: Berth
  readonly #source: Readable | null
  readonly #bodyBytes: number | undefined
  readonly #idleMs: number
  readonly #totalMs: number | undefined
  readonly #totalDeadlineMs: number
  /**
   * For the body of the request to be taken, the answer's head, then each piece of its body; none while it is not the
   * upstream that is waited for.
   */
  #idleDeadlineMs = NEVER
  /** Given by undici when it begins to write the request. */
  #controller: Dispatcher.DispatchController | undefined = undefined
  #retried = false
  /** The whole request has been handed to the connection. */
  sent = false
  /** The body may be lying unread at the other end: nothing can follow it on its connection. */
  #leftUnread = false
  #answerBegan = false
  #headTold = false
  #untilClose = false
  #heldBack = false
  /** Whole, failed, upgraded or given up: nothing more is told. */
  #over = false
  slot = -1

  constructor(terms: Terms<LanedOrigin>, call: UpstreamCall, answer: UpstreamAnswer) {
    this.path = call.target
    this.method = call.method
    this.headers = call.fields.flatMap(({ name, value }) => [name, value])
    this.#bodyBytes = contentLength(call.fields)
    this.#source = call.body
    this.reset = mayLeaveBody(call.method, call.body !== null)
    this.upgrade = call.upgrade ?? null
    this.#terms = terms
    this.#answer = answer
    this.#idleMs = call.idleMs
    this.#totalMs = call.totalMs
    this.#totalDeadlineMs = call.totalMs === undefined ? NEVER : terms.clock() + call.totalMs
    this.#berth = new Berth(terms.choice, terms.first)
  }

  get upstream(): string {
    return this.#berth.origin.url
  }

  begin(): void {
    this.#terms.deadlines.add(this)
    if (this.#terms.closed) process.nextTick(launch, this, CLOSED)
    else this.#attempt(ALL_IN_USE)
  }

  resume(): void {
    if (!this.#heldBack) return
    this.#heldBack = false
    process.nextTick(takeUp, this)
  }

  takeUp(): void {
    if (this.#over || this.#heldBack) return
    this.#idleDeadlineMs = this.#terms.clock() + this.#idleMs
    this.#controller?.resume()
  }

  abort(): void {
    if (this.#over) return
    this.#leave()
    this.#controller?.abort(GIVEN_UP)
    this.#leaveBerth()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.#totalDeadlineMs) this.#give(outOfTotal(this.#totalMs, this.#awaited))
    else if (nowMs >= this.#idleDeadlineMs) {
      const { headersMs } = this.#terms
      const step = { headTold: this.#headTold, sending: !this.sent, headersMs, idleMs: this.#idleMs }
      this.#give(outOfPatience(step))
    } else if (this.#isUploadHeldBack && this.#idleDeadlineMs === NEVER && !this.#headTold) {
      this.#idleDeadlineMs = nowMs + this.#idleMs
    }
  }

  get #awaited(): Awaited {
    if (this.#heldBack) return 'receiver'
    return this.#isUploading && !this.#isUploadHeldBack ? 'sender' : 'upstream'
  }

  get #isUploading(): boolean {
    return this.#controller !== undefined && this.#source !== null && !this.sent
  }

  /** undici holds the body back as long as its connection takes nothing. */
  get #isUploadHeldBack(): boolean {
    return this.#isUploading && this.#source?.isPaused() === true
  }

  /** The connection takes more of the request's body. */
  readonly #uploadTaken = (): void => {
    if (!this.#headTold) this.#idleDeadlineMs = NEVER
  }

  launch(fault: UpstreamFault): void {
    if (this.#over) return
    const { lane } = this.#berth
    if (lane !== undefined) {
      if (this.#source !== null)
        this.body ??= takeWhole(this.#source, this.#bodyBytes) ?? asReadable(this.#source, this.#uploadTaken)
      lane.client.dispatch(this, this)
    } else {
      this.#leave()
      this.#answer.fault(fault)
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
  }

  onRequestSent(): void {
    this.sent = true
    if (!this.#headTold) this.#idleDeadlineMs = this.#terms.clock() + this.#terms.headersMs
  }

  onResponseStarted(): void {
    this.#answerBegan = true
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const fields = receivedFields(controller.rawHeaders)
    if (!isStatus(status)) this.#give({ kind: 'malformed', cause: `status ${status}` })
    else if (status >= 200) this.#begin(status, fields)
    else if (status === 103) this.#answer.information(status, fields)
    else if (status === 101)
      this.#give({ kind: 'malformed', cause: `status ${status} where none was asked for` })
  }

  #begin(status: number, fields: readonly Field[]): void {
    const framing = bodyFraming(this.method, status, fields)
    if (framing === 'faulty') {
      this.#give({ kind: 'malformed', cause: `a ${status} answer whose body has no sound frame` })
    } else {
      this.#untilClose = framing === 'until close'
      this.#headTold = true
      if (this.#source !== null) this.#leftUnread = !this.sent || !hasReadBody(this.method, status)
      this.#idleDeadlineMs = this.#terms.clock() + this.#idleMs
      this.#berth.origin.health.responded(status)
      this.#answer.head(status, fields)
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // What undici's parser says when it is resumed.
    if (chunk.length === 0) return
    this.#idleDeadlineMs = this.#terms.clock() + this.#idleMs
    if (this.#answer.data(chunk)) return
    this.#heldBack = true
    this.#idleDeadlineMs = NEVER
    controller.pause()
  }

  onResponseEnd(): void {
    // A reset ends the connection too, but not a body that lasts until the connection is closed properly.
    if (this.#untilClose && this.#berth.lane?.socket?.errored) {
      this.#give({ kind: 'broken', cause: 'reset before the end of the body' })
    } else {
      this.#leave()
      this.#leaveBerth()
      try {
        this.#answer.end()
      } catch (mistake) {
        process.nextTick(raise, mistake)
      }
    }
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    _status: number,
    _headers: unknown,
    socket: Duplex,
  ): void {
    const fields = receivedFields(controller.rawHeaders)
    this.#leave()
    const { lane } = this.#berth
    if (lane !== undefined) lane.socket = undefined
    this.#leaveBerth()
    try {
      if (switchesTo(this.upgrade ?? '', fields)) {
        this.#answer.upgrade(fields, socket)
      } else {
        socket.destroy()
        this.#answer.fault({ kind: 'malformed', cause: 'a switch to a protocol that was not asked for' })
      }
    } catch (mistake) {
      process.nextTick(raise, mistake)
    }
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#over) return
    const fault = faultOf(error, this.#headTold)
    const attempted = {
      method: this.method,
      hasBody: this.#source !== null,
      upgrade: this.upgrade !== null,
      sent: this.#controller !== undefined,
      answerBegan: this.#answerBegan,
      retried: this.#retried,
    }
    if (mayRetry(error, fault.kind, attempted)) {
      if (error instanceof ConnectError) this.#berth.passOver()
      else this.#retried = true
      this.#leaveBerth()
      this.#attempt(fault)
    } else {
      if (fault.kind === 'broken' || fault.kind === 'malformed') this.#berth.origin.health.brokeDown()
      this.#leave()
      this.#leaveBerth()
      this.#answer.fault(fault)
    }
  }

  /** @param fault what is told when no upstream is left. */
  #attempt(fault: UpstreamFault): void {
    this.#controller = undefined
    this.sent = false
    this.#idleDeadlineMs = NEVER
    this.#berth.take(this.#retried)
    process.nextTick(launch, this, fault)
  }

  /** Fails the exchange by our own decision. */
  #give(fault: UpstreamFault): void {
    if (fault.kind === 'timeout' || fault.kind === 'malformed') this.#berth.origin.health.brokeDown()
    this.abort()
    this.#answer.fault(fault)
  }

  #leave(): void {
    this.#over = true
    this.#terms.deadlines.remove(this)
  }

  /** A request that undici did not begin it may still hold; one that it began is off its hands, told or aborted. */
  #leaveBerth(): void {
    this.#berth.leave(this.#controller !== undefined && !this.#leftUnread)
  }
}

/** undici asks a stream for no more than an upload has; its type does. */
function asReadable(source: Readable, taken: () => void): Readable {
  return new Upload(source, taken) as unknown as Readable
}

function launch(exchange: UpstreamExchange, fault: UpstreamFault): void {
  exchange.launch(fault)
}

function takeUp(exchange: UpstreamExchange): void {
  exchange.takeUp()
}

/** undici loses what a handler throws at the end of an exchange; a mistake of our own must be seen. */
function raise(mistake: unknown): void {
  throw mistake
}
