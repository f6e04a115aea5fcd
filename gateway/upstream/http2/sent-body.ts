import type { ClientHttp2Stream } from 'node:http2'
import type { Readable } from 'node:stream'
import type { BodySender } from '../http1/outgoing-body.ts'

/**
 * Streams a downstream body to a stream of HTTP/2, as fast as that takes it. The source is never destroyed here, only paused. A
 * body that breaks off, or does not have the length it announced, is never sent as complete.
 */
export class SentBody {
  readonly #source: Readable
  readonly #stream: ClientHttp2Stream
  readonly #sender: BodySender
  /** Bytes still to come; undefined: not known. */
  #left: number | undefined
  /** The upstream takes no more for now; otherwise the source is waited for. */
  heldBack = false
  /** Part of it cannot be sent a second time. */
  hasBegun = false
  #isOver = false

  constructor(
    source: Readable,
    bytes: number | undefined,
    to: { readonly stream: ClientHttp2Stream; readonly sender: BodySender },
  ) {
    this.#source = source
    this.#left = bytes
    this.#stream = to.stream
    this.#sender = to.sender
  }

  start(): void {
    const source = this.#source
    if (source.readableEnded) {
      this.#end()
      return
    }
    source.on('data', this.#onData)
    source.on('end', this.#onEnd)
    source.on('error', this.#onError)
    source.on('close', this.#onClose)
    this.#stream.on('drain', this.#onDrain)
    source.resume()
  }

  /** Stops sending and leaves the source paused. */
  stop(): void {
    if (this.#isOver) return
    this.#detach()
    this.#source.pause()
  }

  readonly #onData = (piece: Buffer): void => {
    this.hasBegun = true
    if (this.#left !== undefined) {
      this.#left -= piece.length
      if (this.#left < 0) {
        this.#fail('a body longer than its Content-Length')
        return
      }
    }
    // Reset, with a response that is still being read: a write would be a fault of that.
    if (this.#stream.closed) {
      this.stop()
      return
    }
    const takesMore = this.#stream.write(piece)
    this.#sender.bodyPassed()
    if (takesMore || this.heldBack || this.#isOver) return
    this.heldBack = true
    this.#source.pause()
    this.#sender.bodyHeldBack()
  }

  readonly #onEnd = (): void => this.#end()
  readonly #onError = (error: Error): void => this.#fail(`the body: ${error.message}`)
  readonly #onClose = (): void => this.#fail('the body was broken off')
  readonly #onDrain = (): void => {
    if (!this.heldBack) return
    this.heldBack = false
    this.#source.resume()
    this.#sender.bodyTaken()
  }

  #end(): void {
    if (this.#left !== undefined && this.#left > 0) {
      this.#fail('a body shorter than its Content-Length')
      return
    }
    this.hasBegun = true
    this.#detach()
    // First, because its trailers are asked for when it has ended.
    this.#sender.bodySent()
    this.#stream.end()
  }

  #fail(cause: string): void {
    this.stop()
    this.#sender.bodyFailed(cause)
  }

  #detach(): void {
    this.#isOver = true
    const source = this.#source
    source.off('data', this.#onData)
    source.off('end', this.#onEnd)
    source.off('error', this.#onError)
    source.off('close', this.#onClose)
    this.#stream.off('drain', this.#onDrain)
  }
}
