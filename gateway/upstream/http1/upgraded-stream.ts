import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { copyOf } from './copy-of.ts'

/**
 * The two directions of a connection that has left HTTP with a 101. The connection reads into a buffer of ours and not
 * into its socket's own stream, which therefore cannot be handed on itself.
 */
export class UpgradedStream extends Duplex {
  readonly #socket: Socket
  #inputEnded = false

  constructor(socket: Socket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.on('end', () => this.#endInput())
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.#endInput())
  }

  /** Takes bytes that came, by copying them. @returns `false` when the socket has to be held back until `_read`. */
  receive(bytes: Buffer, from: number, to: number): boolean {
    return this.push(copyOf(bytes, from, to))
  }

  override _read(): void {
    this.#socket.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done)
  }

  override _final(done: () => void): void {
    if (this.#socket.destroyed) done()
    else this.#socket.end(() => done())
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy()
    done(error)
  }

  #endInput(): void {
    if (this.#inputEnded || this.destroyed) return
    this.#inputEnded = true
    this.push(null)
  }
}
