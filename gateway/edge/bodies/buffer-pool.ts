export interface PieceHolder {
  /** Pieces have not been written yet: their buffers must stay as they are. */
  readonly isHolding: boolean
}

/**
 * Buffers of one size that are used again, because allocating one for each read makes V8 collect garbage all the time: it counts
 * what lies outside its heap.
 */
export class BufferPool {
  readonly #bytes: number
  readonly #kept: number
  #most: number
  /** So many exist: spare, lent, or taken. */
  #made = 0
  readonly #spare: Buffer[] = []
  readonly #lent: { readonly buffer: Buffer; readonly holder: PieceHolder }[] = []
  /** So many spare ones were not needed since the last {@link trim}. */
  #unused = 0

  /**
   * @param kept so many are kept while they are spare, and so many while they are lent; beyond that a buffer is left to the
   * garbage collector
   * @param most so many may exist, at most `kept` unless there is no bound
   */
  constructor({ bytes, kept, most }: { bytes: number; kept: number; most: number }) {
    this.#bytes = bytes
    this.#kept = kept
    this.#most = most
  }

  /** How many exist: those that were taken and given to nobody included. */
  get size(): number {
    return this.#made
  }

  /** So many may exist from now on. Those that exist are kept until they are spare. */
  bound(most: number): void {
    this.#most = Math.min(most, this.#kept)
  }

  /** @returns a buffer that nobody else uses; undefined while as many exist as may */
  take(): Buffer | undefined {
    const buffer = this.#spare.pop() ?? this.#takeBack()
    this.#unused = Math.min(this.#unused, this.#spare.length)
    if (buffer !== undefined) return buffer
    if (this.#made >= this.#most) return undefined
    this.#made += 1
    return Buffer.allocUnsafeSlow(this.#bytes)
  }

  /** Gives back a buffer that nothing refers to any more. */
  give(buffer: Buffer): void {
    if (this.#spare.length < this.#kept && this.#made <= this.#most) this.#spare.push(buffer)
    else this.#made -= 1
  }

  /** Gives back a buffer that `holder` still needs for a while. */
  lend(buffer: Buffer, holder: PieceHolder): void {
    if (this.#lent.length < this.#kept) this.#lent.push({ buffer, holder })
    else this.#made -= 1
  }

  /** Frees the buffers that were not needed since the last call. */
  trim(): void {
    for (let lent = this.#takeBack(); lent !== undefined; lent = this.#takeBack()) this.give(lent)
    // Freed at once: the collector may come much later, or never when nothing happens.
    for (const buffer of this.#spare.splice(0, this.#unused)) (buffer.buffer as ArrayBuffer).transfer(0)
    this.#made -= this.#unused
    this.#unused = this.#spare.length
  }

  /** @returns a buffer whose holder does not need it any more */
  #takeBack(): Buffer | undefined {
    const at = this.#lent.findIndex(({ holder }) => !holder.isHolding)
    if (at === -1) return undefined
    const found = this.#lent[at]
    const last = this.#lent.pop()
    if (last !== undefined && at < this.#lent.length) this.#lent[at] = last
    return found?.buffer
  }
}
