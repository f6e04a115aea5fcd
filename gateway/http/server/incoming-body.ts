import { Readable } from 'node:stream'

const HIGH_WATER_BYTES = 64 * 1024

/** The body of a request, as it comes. Destroyed without an end: it broke off. */
export class RequestBody extends Readable {
  readonly #wanted: () => void

  /** @param wanted the reader has room again. */
  constructor(wanted: () => void) {
    super({ highWaterMark: HIGH_WATER_BYTES, autoDestroy: false })
    this.#wanted = wanted
  }

  override _read(): void {
    this.#wanted()
  }
}
