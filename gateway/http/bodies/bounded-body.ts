import { Readable } from 'node:stream'

const nothing = (): void => {}

/** A request body whose length may be unknown, and bounded while it comes. */
export abstract class BoundedBody extends Readable {
  #bytes = 0
  #maxBytes = Number.POSITIVE_INFINITY
  #onExceeded = nothing

  /**
   * Nothing beyond so many bytes is passed on. `onExceeded` is called once when more come, and the body never ends.
   *
   * @returns false when more have come already: then it is not called
   */
  bound(maxBytes: number, onExceeded: () => void): boolean {
    this.#maxBytes = maxBytes
    this.#onExceeded = onExceeded
    return this.#bytes <= maxBytes
  }

  /** Counts what has come. @returns false when it must not be passed on. */
  protected takes(bytes: number): boolean {
    const before = this.#bytes
    this.#bytes += bytes
    if (this.#bytes <= this.#maxBytes) return true
    if (before <= this.#maxBytes) this.#onExceeded()
    return false
  }

  /** The body was cut at its bound. */
  protected get isExceeded(): boolean {
    return this.#bytes > this.#maxBytes
  }
}
