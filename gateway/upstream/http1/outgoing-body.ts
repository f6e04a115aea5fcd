import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { BoundedBody } from '../../http/bodies/bounded-body.ts'
import type { BodyReceiver } from '../../http/bodies/read-buffers.ts'

/** The exchange whose body is sent. Unless the body is stopped, it gets either `bodySent` or `bodyFailed`, once. */
export interface BodySender {
  bodyPassed(): void
  /** The connection takes no more for now. */
  bodyHeldBack(): void
  /** The connection takes more again. */
  bodyTaken(): void
  /** The last byte has been handed to the connection. */
  bodySent(): void
  bodyFailed(cause: string): void
}

/**
 * Streams a downstream body to an upstream, as fast as that takes it. The source is never destroyed here, only paused:
 * its connection is still needed for the response. A body that breaks off, or does not have the length it announced, is
 * never sent as complete (RFC 9112 section 8).
 */
export class RequestBody implements BodyReceiver {
  readonly #source: Readable
  readonly #socket: Socket
  readonly #sender: BodySender
  /** Bytes still to come; undefined: chunked. */
  #left: number | undefined
  /** The upstream takes no more for now; otherwise the source is waited for. */
  heldBack = false
  #over = false

  /** @param bytes its length; undefined: chunked. */
  constructor(source: Readable, bytes: number | undefined, to: { socket: Socket; sender: BodySender }) {
    this.#source = source
    this.#left = bytes
    this.#socket = to.socket
    this.#sender = to.sender
  }

  start(): void {
    const source = this.#source
    if (source.readableEnded) {
      this.#end()
      return
    }
    if (source instanceof BoundedBody) source.passTo(this)
    source.on('data', this.#onData)
    source.on('end', this.#onEnd)
    source.on('error', this.#onError)
    source.on('close', this.#onClose)
    this.#socket.on('drain', this.#onDrain)
    source.resume()
  }

  data(piece: Buffer): boolean {
    this.#onData(piece)
    return !this.heldBack && !this.#over
  }

  get isHolding(): boolean {
    return this.#socket.writableLength > 0
  }

  /** Stops sending and leaves the source paused. */
  stop(): void {
    if (this.#over) return
    this.#detach()
    this.#source.pause()
  }

  readonly #onData = (chunk: Buffer): void => {
    const socket = this.#socket
    if (this.#left !== undefined) {
      this.#left -= chunk.length
      if (this.#left < 0) {
        this.#fail('a body longer than its Content-Length')
        return
      }
      socket.write(chunk)
    } else {
      socket.cork()
      socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
      socket.write(chunk)
      socket.write('\r\n', 'latin1')
      socket.uncork()
    }
    this.#sender.bodyPassed()
    // A drain is announced even of what the system has taken at once.
    if (this.heldBack || !socket.writableNeedDrain || socket.writableLength === 0) return
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
    if (this.#left === undefined) this.#socket.write('0\r\n\r\n', 'latin1')
    this.#detach()
    this.#sender.bodySent()
  }

  #fail(cause: string): void {
    this.stop()
    this.#sender.bodyFailed(cause)
  }

  #detach(): void {
    this.#over = true
    const source = this.#source
    if (source instanceof BoundedBody) source.passTo(undefined)
    source.off('data', this.#onData)
    source.off('end', this.#onEnd)
    source.off('error', this.#onError)
    source.off('close', this.#onClose)
    this.#socket.off('drain', this.#onDrain)
  }
}
