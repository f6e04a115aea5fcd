import { createHash, type Hash } from 'node:crypto'
import { NEWLINE } from '../segments/read-segment.ts'
import { type HashText, LEAF_MAX_BYTES, LEAF_PREFIX, oversizeLeaf, sha256 } from './hashes.ts'

/**
 * Called for each whole line. The leaf is `bytes` from `start` to `end` (exclusive), valid until the call returns.
 * `lineBytes` is the length in the file: an oversize line has a shorter leaf.
 */
type OnLeaf = (hash: HashText, bytes: Buffer, start: number, end: number, lineBytes: number) => void

/** Holds an unfinished line (at most `LEAF_MAX_BYTES`) and the next bytes. */
const BUFFER_BYTES = 256 * 1024

/** Makes leaf hashes in bounded memory. The prefix replaces the `\n` before a line, so one call hashes both. */
export class LineHasher {
  readonly #onLeaf: OnLeaf
  readonly #buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  /** End of the unfinished line, which begins at 1. */
  #end = 1
  /** Hash of a line that is too long to be kept. */
  #oversize: Hash | undefined
  #oversizeBytes = 0

  constructor(onLeaf: OnLeaf) {
    this.#onLeaf = onLeaf
  }

  get unfinishedBytes(): number {
    return this.#oversizeBytes + this.#end - 1
  }

  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + this.#buffer.length - this.#end)
      this.#buffer.set(part, this.#end)
      this.#take(part.length)
      at += part.length
    }
  }

  #take(count: number): void {
    const filled = this.#buffer.subarray(0, this.#end + count)
    let newline = filled.indexOf(NEWLINE, this.#end)
    this.#end += count
    let start = 1
    while (newline !== -1) {
      this.#emit(start, newline + 1)
      start = newline + 1
      newline = filled.indexOf(NEWLINE, start)
    }
    this.#keepRest(start)
  }

  reset(): void {
    this.#end = 1
    this.#oversize = undefined
    this.#oversizeBytes = 0
  }

  #emit(start: number, end: number): void {
    const buffer = this.#buffer
    if (this.#oversize !== undefined || end - start > LEAF_MAX_BYTES) {
      this.#emitOversize(start, end)
      return
    }
    buffer[start - 1] = LEAF_PREFIX
    this.#onLeaf(sha256(buffer.subarray(start - 1, end)), buffer, start, end, end - start)
  }

  #emitOversize(start: number, end: number): void {
    const digest = (this.#oversize ?? createHash('sha256')).update(this.#buffer.subarray(start, end))
    const lineBytes = this.#oversizeBytes + end - start
    this.#oversize = undefined
    this.#oversizeBytes = 0
    const leaf = oversizeLeaf(lineBytes, digest.digest('hex'))
    const bytes = Buffer.concat([Buffer.of(LEAF_PREFIX), leaf])
    this.#onLeaf(sha256(bytes), bytes, 1, bytes.length, lineBytes)
  }

  #keepRest(start: number): void {
    const buffer = this.#buffer
    const rest = this.#end - start
    const isOversize = this.#oversize !== undefined || rest > LEAF_MAX_BYTES
    if (isOversize) {
      this.#oversize ??= createHash('sha256')
      this.#oversize.update(buffer.subarray(start, this.#end))
      this.#oversizeBytes += rest
    } else if (start > 1) {
      buffer.copyWithin(1, start, this.#end)
    }
    this.#end = isOversize ? 1 : 1 + rest
  }
}
