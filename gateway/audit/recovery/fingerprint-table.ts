/** Words before the places: how many are taken. */
const HEAD_WORDS = 2
const WORDS_PER_PLACE = 2

/** A 64-bit hash. The high half is never 0, which marks an empty place. */
export interface Fingerprint {
  readonly low: number
  readonly high: number
}

/**
 * A multiset of fingerprints in memory that outlives the thread that fills it: open addressing, at most half full.
 *
 * The owner can be ended between any two steps. A fingerprint that is moved is copied first and then removed, so that one
 * can be there twice, but none is lost.
 */
export class FingerprintTable {
  readonly #words: Int32Array
  readonly #mask: number

  /** @param words as many as `wordsFor` says; all 0 at first */
  constructor(words: Int32Array) {
    this.#words = words
    this.#mask = (words.length - HEAD_WORDS) / WORDS_PER_PLACE - 1
  }

  /** Room for so many fingerprints, or more: words of 32 bits. @param max at least 1 */
  static wordsFor(max: number): number {
    return HEAD_WORDS + WORDS_PER_PLACE * 2 ** Math.ceil(Math.log2(max * 2))
  }

  get count(): number {
    return this.#words[0] as number
  }

  /** @returns false when there is no room for it */
  add({ low, high }: Fingerprint): boolean {
    if (this.count * 2 > this.#mask) return false
    let at = low & this.#mask
    while (this.#taken(at)) at = (at + 1) & this.#mask
    this.#words[0] = this.count + 1
    this.#put(at, low, high)
    return true
  }

  /** Removes one of those that are equal. @returns false when there is none */
  remove({ low, high }: Fingerprint): boolean {
    let at = low & this.#mask
    while (this.#low(at) !== low || this.#high(at) !== high) {
      if (!this.#taken(at)) return false
      at = (at + 1) & this.#mask
    }
    this.#close(at)
    this.#words[0] = this.count - 1
    return true
  }

  clear(): void {
    this.#words.fill(0)
  }

  /** Fills the gap with what could not be found behind it (Knuth, The Art of Computer Programming 6.4, algorithm R). */
  #close(removed: number): void {
    let gap = removed
    for (let at = (gap + 1) & this.#mask; this.#taken(at); at = (at + 1) & this.#mask) {
      const home = this.#low(at) & this.#mask
      const movable = ((at - home) & this.#mask) >= ((at - gap) & this.#mask)
      if (!movable) continue
      this.#put(gap, this.#low(at), this.#high(at))
      gap = at
    }
    this.#put(gap, 0, 0)
  }

  /** The high half last, so that an empty place is not taken before it is whole. One that is cleared is junk for a moment. */
  #put(place: number, low: number, high: number): void {
    const at = HEAD_WORDS + place * WORDS_PER_PLACE
    this.#words[at] = low
    this.#words[at + 1] = high
  }

  #low(place: number): number {
    return this.#words[HEAD_WORDS + place * WORDS_PER_PLACE] as number
  }

  #high(place: number): number {
    return this.#words[HEAD_WORDS + place * WORDS_PER_PLACE + 1] as number
  }

  #taken(place: number): boolean {
    return this.#high(place) !== 0
  }
}
