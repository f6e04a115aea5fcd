import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { copyOf } from '../../edge/bodies/read-buffers.ts'

/** Both directions of a connection after a 101. The socket itself reads into our buffer instead of its own stream. */
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

  /** @returns `false` to pause the socket until `_read` */
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
