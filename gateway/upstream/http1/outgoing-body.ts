import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'

/** Who sends a body. Exactly one of the last two is told, once, unless the body is stopped before. */
export interface BodySender {
  /** The connection takes nothing more for now. */
  bodyHeldBack(): void
  /** It takes more again. */
  bodyTaken(): void
  /** The last byte has been handed to the connection. */
  bodySent(): void
  /** It cannot become whole any more. */
  bodyFailed(cause: string): void
}

/**
 * A downstream body on its way up, as fast as the upstream takes it. The source belongs to the client's exchange, which
 * still has an answer to write: it is never destroyed here, only held back when nobody wants the rest of it. A body
 * that breaks off, or has another length than it names, never looks whole (RFC 9112 section 8).
 */
export class RequestBody {
  readonly #source: Readable
  readonly #socket: Socket
  readonly #sender: BodySender
  /** Bytes still to come; undefined when the body goes in chunks. */
  #left: number | undefined
  /** It is the upstream that is waited for, and not the source. */
  heldBack = false
  #over = false

  /** @param bytes its length; undefined when it goes in chunks. */
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
    source.on('data', this.#onData)
    source.on('end', this.#onEnd)
    source.on('error', this.#onError)
    source.on('close', this.#onClose)
    this.#socket.on('drain', this.#onDrain)
    source.resume()
  }

  /** Lets the source be, held back. */
  stop(): void {
    if (this.#over) return
    this.#leave()
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
    if (!socket.writableNeedDrain || this.heldBack) return
    this.heldBack = true
    this.#source.pause()
    this.#sender.bodyHeldBack()
  }

  readonly #onEnd = (): void => this.#end()
  readonly #onError = (error: Error): void => this.#fail(`the body: ${error.message}`)
  readonly #onClose = (): void => this.#fail('the body was broken off')
  readonly #onDrain = (): void => {
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
    this.#leave()
    this.#sender.bodySent()
  }

  #fail(cause: string): void {
    this.stop()
    this.#sender.bodyFailed(cause)
  }

  #leave(): void {
    this.#over = true
    const source = this.#source
    source.off('data', this.#onData)
    source.off('end', this.#onEnd)
    source.off('error', this.#onError)
    source.off('close', this.#onClose)
    this.#socket.off('drain', this.#onDrain)
  }
}
