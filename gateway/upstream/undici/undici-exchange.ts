import type { Duplex, Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Timed } from '../../http/syntax/deadlines.ts'
import type { Field } from '../../http/syntax/field.ts'
import { mayRetry } from '../balancing/retry.ts'
import type { ClientState } from '../client-state.ts'
import { ConnectError } from '../open-connection.ts'
import { bodyFraming, isStatus, receivedFields, switchesTo } from '../response-head.ts'
import { stepTimeout, totalTimeout, type WaitedFor } from '../timeout-faults.ts'
import { hasReadBody, mayLeaveBody } from '../unread-body.ts'
import type { UpstreamCall, UpstreamFault, UpstreamRequest, UpstreamResponse } from '../upstream-client.ts'
import { contentLength, takeWhole } from '../whole-body.ts'
import { faultOf } from './undici-faults.ts'
import type { UndiciOrigin } from './undici-pool.ts'
import { Upload } from './upload.ts'
import { UpstreamLease } from './upstream-lease.ts'

const ABORTED = new Error('the exchange was given up')
const CLOSED: UpstreamFault = { kind: 'unreachable', cause: 'the upstreams are being closed' }
const NEVER = Number.POSITIVE_INFINITY
const ALL_IN_USE: UpstreamFault = { kind: 'unreachable', cause: 'every connection is in use' }

/**
 * One request and its response. The same object is the call that the sender holds, and both options and handler of
 * undici's dispatch: one allocation for each request.
 *
 * undici is only called from `process.nextTick`: it may fail at once, before `send` has returned, and it must not be
 * entered again from a callback of its parser, which all connections share.
 */
export class UndiciExchange implements UpstreamCall, Timed, Dispatcher.DispatchHandler {
  readonly path: string
  readonly method: string
  readonly headers: string[]
  /** Set when the first attempt begins: `#source` as a buffer or an Upload. */
  body: Readable | Buffer | null = null
  readonly upgrade: string | null
  /** Whether undici closes the connection after the response. By default it would after each HEAD. */
  readonly reset: boolean
  readonly blocking = false

  readonly #state: ClientState<UndiciOrigin>
  readonly #response: UpstreamResponse
  readonly #lease: UpstreamLease
  readonly #source: Readable | null
  readonly #bodyBytes: number | undefined
  readonly #idleMs: number
  readonly #totalMs: number | undefined
  readonly #totalDeadlineMs: number
  /** For the upstream to take the body, send its head or the next piece; NEVER while it is not its turn. */
  #idleDeadlineMs = NEVER
  /** Set by undici when it begins to write the request. */
  #controller: Dispatcher.DispatchController | undefined = undefined
  #retried = false
  /** The whole request has been handed to the connection. */
  sent = false
  /** The upstream may not have read the whole body: the connection is not used again. */
  #leftUnread = false
  #responseBegan = false
  #headReceived = false
  #untilClose = false
  #isPaused = false
  /** Complete, failed, upgraded or aborted: the response gets no further calls. */
  #over = false
  slot = -1

  constructor(state: ClientState<UndiciOrigin>, request: UpstreamRequest, response: UpstreamResponse) {
    this.path = request.target
    this.method = request.method
    this.headers = request.fields.flatMap(({ name, value }) => [name, value])
    this.#bodyBytes = contentLength(request.fields)
    this.#source = request.body
    this.reset = mayLeaveBody(request.method, request.body !== null)
    this.upgrade = request.upgrade ?? null
    this.#state = state
    this.#response = response
    this.#idleMs = request.idleMs
    this.#totalMs = request.totalMs
    this.#totalDeadlineMs = request.totalMs === undefined ? NEVER : state.clock() + request.totalMs
    this.#lease = new UpstreamLease(state.choice, state.first)
  }

  get upstream(): string {
    return this.#lease.origin.url
  }

  begin(): void {
    this.#state.deadlines.add(this)
    if (this.#state.closed) process.nextTick(launch, this, CLOSED)
    else this.#attempt(ALL_IN_USE)
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    process.nextTick(continueReading, this)
  }

  continueReading(): void {
    if (this.#over || this.#isPaused) return
    this.#idleDeadlineMs = this.#state.clock() + this.#idleMs
    this.#controller?.resume()
  }

  abort(): void {
    if (this.#over) return
    this.#finish()
    this.#controller?.abort(ABORTED)
    this.#endLease()
  }

  checkTime(nowMs: number): void {
    if (nowMs >= this.#totalDeadlineMs) this.#abortWith(totalTimeout(this.#totalMs, this.#waitedFor))
    else if (nowMs >= this.#idleDeadlineMs) {
      const { headersMs } = this.#state
      const step = { headReceived: this.#headReceived, sending: !this.sent, headersMs, idleMs: this.#idleMs }
      this.#abortWith(stepTimeout(step))
    } else if (this.#isUploadPaused && this.#idleDeadlineMs === NEVER && !this.#headReceived) {
      this.#idleDeadlineMs = nowMs + this.#idleMs
    }
  }

  get #waitedFor(): WaitedFor {
    if (this.#isPaused) return 'receiver'
    return this.#isUploading && !this.#isUploadPaused ? 'sender' : 'upstream'
  }

  get #isUploading(): boolean {
    return this.#controller !== undefined && this.#source !== null && !this.sent
  }

  /** undici pauses the source while its connection takes nothing. */
  get #isUploadPaused(): boolean {
    return this.#isUploading && this.#source?.isPaused() === true
  }

  /** The connection takes more of the request body. */
  readonly #uploadTaken = (): void => {
    if (!this.#headReceived) this.#idleDeadlineMs = NEVER
  }

  launch(fault: UpstreamFault): void {
    if (this.#over) return
    const { pooled } = this.#lease
    if (pooled !== undefined) {
      if (this.#source !== null)
        this.body ??= takeWhole(this.#source, this.#bodyBytes) ?? asReadable(this.#source, this.#uploadTaken)
      pooled.client.dispatch(this, this)
    } else {
      this.#finish()
      this.#response.fault(fault)
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
  }

  onRequestSent(): void {
    this.sent = true
    if (!this.#headReceived) this.#idleDeadlineMs = this.#state.clock() + this.#state.headersMs
  }

  onResponseStarted(): void {
    this.#responseBegan = true
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const fields = receivedFields(controller.rawHeaders)
    if (!isStatus(status)) this.#abortWith({ kind: 'malformed', cause: `status ${status}` })
    else if (status >= 200) this.#begin(status, fields)
    else if (status === 103) this.#response.information(status, fields)
    else if (status === 101)
      this.#abortWith({ kind: 'malformed', cause: `status ${status} where none was asked for` })
  }

  #begin(status: number, fields: readonly Field[]): void {
    const framing = bodyFraming(this.method, status, fields)
    if (framing === 'faulty') {
      this.#abortWith({ kind: 'malformed', cause: `a ${status} response whose body has no sound frame` })
    } else {
      this.#untilClose = framing === 'until close'
      this.#headReceived = true
      if (this.#source !== null) this.#leftUnread = !this.sent || !hasReadBody(this.method, status)
      this.#idleDeadlineMs = this.#state.clock() + this.#idleMs
      this.#lease.origin.health.responded(status)
      this.#response.head(status, fields)
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici's parser reports an empty piece when it is resumed.
    if (chunk.length === 0) return
    this.#idleDeadlineMs = this.#state.clock() + this.#idleMs
    if (this.#response.data(chunk)) return
    this.#isPaused = true
    this.#idleDeadlineMs = NEVER
    controller.pause()
  }

  onResponseEnd(): void {
    // A body framed by the end of the connection is complete only when that was closed, not reset.
    if (this.#untilClose && this.#lease.pooled?.socket?.errored) {
      this.#abortWith({ kind: 'broken', cause: 'reset before the end of the body' })
    } else {
      this.#finish()
      this.#endLease()
      try {
        this.#response.end()
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
    this.#finish()
    const { pooled } = this.#lease
    if (pooled !== undefined) pooled.socket = undefined
    this.#endLease()
    try {
      if (switchesTo(this.upgrade ?? '', fields)) {
        this.#response.upgrade(fields, socket)
      } else {
        socket.destroy()
        this.#response.fault({ kind: 'malformed', cause: 'a switch to a protocol that was not asked for' })
      }
    } catch (mistake) {
      process.nextTick(raise, mistake)
    }
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#over) return
    const fault = faultOf(error, this.#headReceived)
    const unconnected = error instanceof ConnectError
    const sent = this.#controller !== undefined
    const progress = { sent, responseBegan: this.#responseBegan, retried: this.#retried }
    const request = { method: this.method, body: this.#source, upgrade: this.upgrade ?? undefined }
    if (unconnected || mayRetry(fault.kind, request, progress)) {
      if (unconnected) this.#lease.excludeOrigin()
      else this.#retried = true
      this.#endLease()
      this.#attempt(fault)
    } else {
      if (fault.kind === 'broken' || fault.kind === 'malformed') this.#lease.origin.health.exchangeFailed()
      this.#finish()
      this.#endLease()
      this.#response.fault(fault)
    }
  }

  /** @param fault the fault when no upstream is left. */
  #attempt(fault: UpstreamFault): void {
    this.#controller = undefined
    this.sent = false
    this.#idleDeadlineMs = NEVER
    this.#lease.take(this.#retried)
    process.nextTick(launch, this, fault)
  }

  /** Ends the exchange by our own decision. */
  #abortWith(fault: UpstreamFault): void {
    if (fault.kind === 'timeout' || fault.kind === 'malformed') this.#lease.origin.health.exchangeFailed()
    this.abort()
    this.#response.fault(fault)
  }

  #finish(): void {
    this.#over = true
    this.#state.deadlines.remove(this)
  }

  /** undici may still hold a request that it did not begin to write: then its client cannot be used again. */
  #endLease(): void {
    this.#lease.end(this.#controller !== undefined && !this.#leftUnread)
  }
}

/** An Upload has all that undici uses of a stream, but not all that the type asks for. */
function asReadable(source: Readable, taken: () => void): Readable {
  return new Upload(source, taken) as unknown as Readable
}

function launch(exchange: UndiciExchange, fault: UpstreamFault): void {
  exchange.launch(fault)
}

function continueReading(exchange: UndiciExchange): void {
  exchange.continueReading()
}

/** undici swallows what a handler throws at the end of an exchange; our own mistakes must surface. */
function raise(mistake: unknown): void {
  throw mistake
}
