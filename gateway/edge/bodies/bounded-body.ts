import { Readable } from 'node:stream'
import type { BodyReceiver } from './read-buffers.ts'

const nothing = (): void => {}

/** The buffer for short pieces begins with 512 bytes, and grows up to 16 KiB. */
const LEAST_GATHERED_BYTES = 512
const GATHERED_BYTES = 16 * 1024

export abstract class BoundedBody extends Readable {
  #bytes = 0
  #maxBytes = Number.POSITIVE_INFINITY
  #onExceeded = nothing
  /** Short pieces that are not yet in the stream. They enter it when it is read, or when this buffer is full. */
  #gathered: Buffer | undefined = undefined
  #gatheredBytes = 0

  /** Calls `onExceeded` once when more than `maxBytes` come. @returns false, without a call, if more came before */
  bound(maxBytes: number, onExceeded: () => void): boolean {
    this.#maxBytes = maxBytes
    this.#onExceeded = onExceeded
    return this.#bytes <= maxBytes
  }

  /** Passes pieces to a receiver, past the stream; undefined ends this. Call it before you listen to `data`. */
  passTo(_receiver: BodyReceiver | undefined): void {}

  override read(size?: number): Buffer | null {
    if (this.#gatheredBytes > 0 && size !== 0) this.pushGathered()
    return super.read(size)
  }

  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  /** Counts bytes that have come. @returns false when they must not be passed on */
  protected takes(bytes: number): boolean {
    const before = this.#bytes
    this.#bytes += bytes
    if (this.#bytes <= this.#maxBytes) return true
    if (before <= this.#maxBytes) this.#onExceeded()
    return false
  }

  protected get isExceeded(): boolean {
    return this.#bytes > this.#maxBytes
  }

  /** Copies a piece behind the others. Then its read buffer is free. @returns false when no more should come */
  protected gather(bytes: Buffer, from: number, to: number): boolean {
    for (let at = from; at < to; ) {
      const gathered = this.#gatheringBuffer(to - at)
      const copied = bytes.copy(gathered, this.#gatheredBytes, at, to)
      this.#gatheredBytes += copied
      at += copied
    }
    return this.readableLength + this.#gatheredBytes < this.readableHighWaterMark
  }

  protected get isGathering(): boolean {
    return this.#gatheredBytes > 0
  }

  protected enter(piece: Buffer): boolean {
    this.pushGathered()
    return this.push(piece)
  }

  protected enterEnd(): void {
    this.pushGathered()
    this.push(null)
  }

  /** @returns a buffer that is not full */
  #gatheringBuffer(bytes: number): Buffer {
    const filled = this.#gatheredBytes
    const before = this.#gathered
    if (before !== undefined && filled < before.length) return before
    if (filled >= GATHERED_BYTES) this.pushGathered()
    const kept = this.#gathered
    const least = kept === undefined ? Math.max(bytes, LEAST_GATHERED_BYTES) : 2 * filled
    const gathered = Buffer.allocUnsafeSlow(Math.min(least, GATHERED_BYTES))
    kept?.copy(gathered, 0, 0, filled)
    this.#gathered = gathered
    return gathered
  }

  protected pushGathered(): boolean {
    const gathered = this.#gathered
    if (gathered === undefined) return true
    const bytes = this.#gatheredBytes
    this.#gathered = undefined
    this.#gatheredBytes = 0
    return this.push(bytes === gathered.length ? gathered : gathered.subarray(0, bytes))
  }
}
