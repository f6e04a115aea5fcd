import type { Readable } from 'node:stream'

// biome-ignore lint/suspicious/noExplicitAny: the type that EventEmitter gives a listener.
type Listener = (...args: any[]) => void

/**
 * The downstream body as undici may have it: all it needs of a stream, except the power to destroy it. undici destroys
 * a body when it is through with it, also with one that was sent whole, and takes the socket from an IncomingMessage
 * before; but the connection below belongs to the client's exchange, which still has an answer to write on it.
 * When undici has had enough the body is held back, and its owner decides what becomes of it.
 */
export class Upload {
  readonly #source: Readable
  readonly #taken: () => void
  destroyed = false

  /** @param taken called when undici, which held the body back, takes more of it. */
  constructor(source: Readable, taken: () => void) {
    this.#source = source
    this.#taken = taken
  }

  /** Never called: undici takes anything with `pipe` and `on` for a stream. */
  pipe(): never {
    throw new Error('an upload is read by its events')
  }

  on(event: string, listener: Listener): this {
    this.#source.on(event, listener)
    return this
  }

  off(event: string, listener: Listener): this {
    this.#source.off(event, listener)
    return this
  }

  removeListener(event: string, listener: Listener): this {
    return this.off(event, listener)
  }

  /** undici calls `read(0)`, to learn whether the whole body is there already. */
  read(bytes: number): unknown {
    return this.#source.read(bytes)
  }

  resume(): void {
    this.#taken()
    this.#source.resume()
  }

  destroy(): void {
    this.destroyed = true
    this.#source.pause()
  }

  get _readableState(): unknown {
    return (this.#source as unknown as { _readableState: unknown })._readableState
  }

  get errored(): Error | null {
    return this.#source.errored
  }

  get readableEnded(): boolean {
    return this.#source.readableEnded
  }

  get closed(): boolean {
    return this.#source.closed
  }
}
