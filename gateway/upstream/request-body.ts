import type { Readable, Writable } from 'node:stream'
import { valueIn } from '../edge/syntax/field.ts'
import type { UpstreamRequest } from './upstream-client.ts'

/** Methods whose body a service has read when it responds with 2xx. */
export const METHODS_WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

export function contentLength({ common, fields }: UpstreamRequest): number | undefined {
  const length = valueIn(common?.fields ?? [], 'content-length') ?? valueIn(fields, 'content-length')
  return length === undefined ? undefined : Number(length)
}

/** Unless the body is stopped, either `bodySent` or `bodyFailed` is called, once. */
export interface BodySender {
  bodyPassed(): void
  bodyHeldBack(): void
  bodyTaken(): void
  bodySent(): void
  bodyFailed(cause: string): void
}

/**
 * The source is only paused, never destroyed, because its connection is needed for the response. A body that breaks
 * off, or has another length than announced, is never sent as complete (RFC 9112 section 8).
 */
export abstract class StreamedBody<To extends Writable> {
  protected readonly source: Readable
  protected readonly to: To
  protected readonly sender: BodySender
  /** Announced bytes still to come, if any. */
  protected left: number | undefined
  /** True while the upstream takes no more. Otherwise the body waits for its source. */
  heldBack = false
  /** True once a part was sent, so that the body cannot be sent again. */
  hasBegun = false
  protected isOver = false

  constructor(
    source: Readable,
    bytes: number | undefined,
    to: { readonly stream: To; readonly sender: BodySender },
  ) {
    this.source = source
    this.left = bytes
    this.to = to.stream
    this.sender = to.sender
  }

  protected abstract write(piece: Buffer): boolean
  protected abstract finish(): void

  start(): void {
    const { source } = this
    if (source.readableEnded) {
      this.#end()
      return
    }
    source.on('data', this.onData)
    source.on('end', this.#onEnd)
    source.on('error', this.#onError)
    source.on('close', this.#onClose)
    this.to.on('drain', this.#onDrain)
    source.resume()
  }

  /** Leaves the source paused. */
  stop(): void {
    if (this.isOver) return
    this.detach()
    this.source.pause()
  }

  protected readonly onData = (piece: Buffer): void => {
    if (this.left !== undefined) {
      this.left -= piece.length
      if (this.left < 0) {
        this.#fail('a body longer than its Content-Length')
        return
      }
    }
    this.hasBegun = true
    const takesMore = this.write(piece)
    if (this.isOver) return
    this.sender.bodyPassed()
    if (takesMore || this.heldBack || this.isOver) return
    this.heldBack = true
    this.source.pause()
    this.sender.bodyHeldBack()
  }

  readonly #onEnd = (): void => this.#end()
  readonly #onError = (error: Error): void => this.#fail(`the body: ${error.message}`)
  readonly #onClose = (): void => this.#fail('the body was broken off')
  readonly #onDrain = (): void => {
    if (!this.heldBack) return
    this.heldBack = false
    this.source.resume()
    this.sender.bodyTaken()
  }

  #end(): void {
    if (this.left !== undefined && this.left > 0) {
      this.#fail('a body shorter than its Content-Length')
      return
    }
    this.hasBegun = true
    this.finish()
  }

  #fail(cause: string): void {
    this.stop()
    this.sender.bodyFailed(cause)
  }

  protected detach(): void {
    this.isOver = true
    const { source } = this
    source.off('data', this.onData)
    source.off('end', this.#onEnd)
    source.off('error', this.#onError)
    source.off('close', this.#onClose)
    this.to.off('drain', this.#onDrain)
  }
}
