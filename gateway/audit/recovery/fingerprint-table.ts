/** Words before the slots; the first counts the slots in use. */
const HEAD_WORDS = 2
const WORDS_PER_SLOT = 2

/** A 64-bit hash. The high half is never 0, which marks an empty slot. */
export interface Fingerprint {
  readonly low: number
  readonly high: number
}

/**
 * A multiset of fingerprints in memory that outlives the thread that fills it: a hash table with open addressing, at most
 * half full.
 *
 * Its thread can be terminated between any two steps. A fingerprint is moved by copying it first and then removing it, so one
 * may be there twice, but none is lost.
 */
export class FingerprintTable {
  readonly #words: Int32Array
  readonly #mask: number

  /** @param words of the length that `wordsFor` gives; all 0 at first. */
  constructor(words: Int32Array) {
    this.#words = words
    this.#mask = (words.length - HEAD_WORDS) / WORDS_PER_SLOT - 1
  }

  /** @param max fingerprints to hold, at least 1. @returns the length in 32-bit words. */
  static wordsFor(max: number): number {
    return HEAD_WORDS + WORDS_PER_SLOT * 2 ** Math.ceil(Math.log2(max * 2))
  }

  get count(): number {
    return this.#words[0] as number
  }

  /** @returns false when there is no room for it. */
  add({ low, high }: Fingerprint): boolean {
    if (this.count * 2 > this.#mask) return false
    let at = low & this.#mask
    while (this.#taken(at)) at = (at + 1) & this.#mask
    this.#words[0] = this.count + 1
    this.#put(at, low, high)
    return true
  }

  /** Removes one of equal fingerprints. @returns false when there is none. */
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

  /** Fills the gap, so that later entries are still found (Knuth, The Art of Computer Programming 6.4, algorithm R). */
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

  /** Writes the high half last, so that a slot counts as taken only when it is whole. */
  #put(slot: number, low: number, high: number): void {
    const at = HEAD_WORDS + slot * WORDS_PER_SLOT
    this.#words[at] = low
    this.#words[at + 1] = high
  }

  #low(slot: number): number {
    return this.#words[HEAD_WORDS + slot * WORDS_PER_SLOT] as number
  }

  #high(slot: number): number {
    return this.#words[HEAD_WORDS + slot * WORDS_PER_SLOT + 1] as number
  }

  #taken(slot: number): boolean {
    return this.#high(slot) !== 0
  }
}
