import type { Duplex, Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { Field } from '../../http/syntax/field.ts'
import { ConnectError } from '../open-connection.ts'
import { NEVER, PooledExchange } from '../pooled-exchange.ts'
import type { ClientState } from '../pooled-upstreams.ts'
import { contentLength, hasReadBody, mayLeaveBody, takeWhole } from '../request-body.ts'
import { bodyFraming, isStatus, receivedFields } from '../response-head.ts'
import type { UpstreamRequest, UpstreamResponse } from '../upstream-client.ts'
import { faultOf } from './undici-faults.ts'
import type { PooledClient, UndiciPool } from './undici-pool.ts'
import { Upload } from './upload.ts'

const ABORTED = new Error('the exchange was given up')

/**
 * An exchange through undici: also the options and the handler of its dispatch, so that it is one allocation.
 *
 * undici is only called from `process.nextTick`: it may fail at once, before `send` has returned, and it must not be
 * entered again from a callback of its parser, which all connections share.
 */
export class UndiciExchange
  extends PooledExchange<PooledClient, UndiciPool, ClientState<UndiciPool>>
  implements Dispatcher.DispatchHandler
{
  readonly path: string
  readonly method: string
  headers: string[]
  /** Set when the first attempt begins: the request's body as a buffer or an Upload. */
  body: Readable | Buffer | null = null
  readonly upgrade: string | null
  /** Whether undici closes the connection after the response. By default it would after each HEAD. */
  readonly reset: boolean
  readonly blocking = false
  /** Set by undici when it begins to write the request. */
  #controller: Dispatcher.DispatchController | undefined = undefined
  /** The upstream may not have read the whole body: the connection is not used again. */
  #leftUnread = false
  #responseBegan = false
  #untilClose = false

  constructor(state: ClientState<UndiciPool>, request: UpstreamRequest, response: UpstreamResponse) {
    super(state, request, response)
    this.path = request.target
    this.method = request.method
    this.headers = flatFields(request)
    this.upgrade = request.upgrade ?? null
    this.reset = mayLeaveBody(request.method, request.body !== null)
  }

  override continueReading(): boolean {
    const mayRead = super.continueReading()
    if (mayRead) this.#controller?.resume()
    return mayRead
  }

  override checkTime(nowMs: number): void {
    super.checkTime(nowMs)
    const isHeldBack = this.#isUploadPaused && !this.headReceived
    if (isHeldBack && this.idleDeadlineMs === NEVER) this.idleDeadlineMs = nowMs + this.request.idleMs
  }

  protected get isSending(): boolean {
    return !this.sent
  }

  protected get awaitsSender(): boolean {
    return this.#isUploading && !this.#isUploadPaused
  }

  get #isUploading(): boolean {
    return this.#controller !== undefined && this.request.body !== null && !this.sent
  }

  /** undici pauses the source while its connection takes nothing. */
  get #isUploadPaused(): boolean {
    return this.#isUploading && this.request.body?.isPaused() === true
  }

  protected fieldsChanged(): void {
    this.headers = flatFields(this.request)
  }

  protected use(): void {
    this.#leftUnread = false
    this.#responseBegan = false
    this.#untilClose = false
    process.nextTick(dispatch, this)
  }

  dispatch(): void {
    const { body: source, fields } = this.request
    if (this.over) return
    if (source !== null)
      this.body ??= takeWhole(source, contentLength(fields)) ?? asReadable(source, () => this.bodyTaken())
    this.connection?.client.dispatch(this, this)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
  }

  onRequestSent(): void {
    this.sent = true
    this.awaitHead()
  }

  onResponseStarted(): void {
    this.#responseBegan = true
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const fields = receivedFields(controller.rawHeaders)
    if (!isStatus(status)) this.abortWith({ kind: 'malformed', cause: `status ${status}` })
    else if (status >= 200) this.#finalHead(status, fields)
    else if (status !== 101) this.interim(status, fields)
    else this.abortWith({ kind: 'malformed', cause: `status ${status} where none was asked for` })
  }

  #finalHead(status: number, fields: readonly Field[]): void {
    const framing = bodyFraming(this.method, status, fields)
    if (framing === 'faulty') {
      this.abortWith({ kind: 'malformed', cause: `a ${status} response whose body has no sound frame` })
    } else {
      this.#untilClose = framing === 'until close'
      if (this.request.body !== null) this.#leftUnread = !this.sent || !hasReadBody(this.method, status)
      this.head(status, fields, this.state.clock())
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici's parser reports an empty piece when it is resumed.
    if (chunk.length > 0 && !this.data(chunk, this.state.clock())) controller.pause()
  }

  onResponseEnd(): void {
    // A body framed by the end of the connection is complete only when that was closed, not reset.
    if (this.#untilClose && this.connection?.socket?.errored) {
      this.abortWith({ kind: 'broken', cause: 'reset before the end of the body' })
    } else surface(() => this.ended())
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    _status: number,
    _headers: unknown,
    socket: Duplex,
  ): void {
    const fields = receivedFields(controller.rawHeaders)
    if (this.connection !== undefined) this.connection.socket = undefined
    surface(() => this.switched(fields, socket))
  }

  onResponseError(_controller: unknown, error: Error): void {
    // The latter: of an attempt whose response was dropped.
    if (this.over || error === ABORTED) return
    const fault = faultOf(error, this.headReceived)
    const sent = this.#controller !== undefined
    if (error instanceof ConnectError) this.connectionRefused(fault)
    else this.connectionLost(fault, { sent, responseBegan: this.#responseBegan })
  }

  protected dropConnection(): void {
    this.#controller?.abort(ABORTED)
    this.detach()
  }

  protected override detach(): PooledClient | undefined {
    const pooled = super.detach()
    const { pool } = this.chosenOrigin
    // undici may still hold a request that it did not begin to write: then its client cannot be used again.
    const isReusable = this.#controller !== undefined && !this.#leftUnread
    this.#controller = undefined
    if (pooled !== undefined && isReusable) pool.release(pooled)
    else if (pooled !== undefined) pool.discard(pooled)
    return pooled
  }
}

function flatFields({ fields }: UpstreamRequest): string[] {
  return fields.flatMap(({ name, value }) => [name, value])
}

/** An Upload has all that undici uses of a stream, but not all that the type asks for. */
function asReadable(source: Readable, taken: () => void): Readable {
  return new Upload(source, taken) as unknown as Readable
}

function dispatch(exchange: UndiciExchange): void {
  exchange.dispatch()
}

/** undici swallows what a handler throws at the end of an exchange; our own mistakes must surface. */
function surface(end: () => void): void {
  try {
    end()
  } catch (mistake) {
    process.nextTick(() => {
      throw mistake
    })
  }
}
