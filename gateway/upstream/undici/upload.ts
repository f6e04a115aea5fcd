import type { Readable } from 'node:stream'

// biome-ignore lint/suspicious/noExplicitAny: the type that EventEmitter gives a listener.
type Listener = (...args: any[]) => void

/**
 * The downstream body for undici: all that it uses of a stream, except that it cannot destroy the source. undici destroys
 * every body in the end, but the client's connection is still needed for the response. Here `destroy` only pauses the
 * source, and its owner decides about the rest.
 */
export class Upload {
  readonly #source: Readable
  readonly #taken: () => void
  destroyed = false

  /** @param taken called when undici takes more after a pause. */
  constructor(source: Readable, taken: () => void) {
    this.#source = source
    this.#taken = taken
  }

  /** Never called; undici recognises a stream by `pipe` and `on`. */
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

  /** undici calls `read(0)` to learn whether the whole body has arrived. */
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
