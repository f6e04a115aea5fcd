/** A seat in shared memory begins with its owner and the number of notes. */
const HEAD_BYTES = 16
const COUNT = 1
const NOTE_BYTES = 8

/** The field after request id and timestamp, which name a pair. It cannot stand inside a value: a quote is escaped there. */
const AFTER_KEY = ',"method":'

/** Size of a seat for so many requests open at once. @param maxOpen at least 1. */
export function seatBytes(maxOpen: number): number {
  return HEAD_BYTES + NOTE_BYTES * capacityFor(maxOpen)
}

/** Never more than half full. */
function capacityFor(maxOpen: number): number {
  return 2 ** Math.ceil(Math.log2(maxOpen * 2))
}

/**
 * Which requests a thread has open, as 64-bit fingerprints of their keys in memory that outlives the thread: what it
 * left behind can then be told from what the others still work on. An open-addressing table; at most half of it is used,
 * and what comes beyond that is not noted.
 *
 * The owner can be ended between any two steps. A note that is moved is copied first and then removed, so that one can be
 * there twice, but none is lost.
 */
export class Notes {
  readonly #seat: Int32Array
  readonly #table: Int32Array
  readonly #mask: number
  #low = 0
  #high = 0

  constructor(seat: DataView<SharedArrayBuffer>) {
    this.#seat = new Int32Array(seat.buffer, seat.byteOffset, HEAD_BYTES / 4)
    const capacity = (seat.byteLength - HEAD_BYTES) / NOTE_BYTES
    this.#table = new Int32Array(seat.buffer, seat.byteOffset + HEAD_BYTES, capacity * 2)
    this.#mask = capacity - 1
  }

  get count(): number {
    return this.#seat[COUNT] as number
  }

  /** Before its API_REQUEST line is written. */
  add(line: string): void {
    if (this.count * 2 > this.#mask) return
    this.#fingerprint(line)
    let at = this.#low & this.#mask
    while (this.#taken(at)) at = (at + 1) & this.#mask
    this.#seat[COUNT] = this.count + 1
    this.#table[at * 2] = this.#low
    this.#table[at * 2 + 1] = this.#high
  }

  /**
   * After its API_RESPONSE line was written, or when its API_REQUEST could not be.
   *
   * @param line either of the two.
   * @returns false when there was no such note.
   */
  remove(line: string): boolean {
    this.#fingerprint(line)
    let at = this.#low & this.#mask
    while (this.#table[at * 2] !== this.#low || this.#table[at * 2 + 1] !== this.#high) {
      if (!this.#taken(at)) return false
      at = (at + 1) & this.#mask
    }
    this.#close(at)
    this.#seat[COUNT] = this.count - 1
    return true
  }

  /** Leaves the seat to whoever wants it. */
  release(): void {
    this.#table.fill(0)
    this.#seat[COUNT] = 0
    Atomics.store(this.#seat, 0, 0)
  }

  /** Fills the gap with what could not be found behind it (Knuth, The Art of Computer Programming 6.4, algorithm R). */
  #close(removed: number): void {
    const table = this.#table
    let gap = removed
    for (let at = (gap + 1) & this.#mask; this.#taken(at); at = (at + 1) & this.#mask) {
      const home = (table[at * 2] as number) & this.#mask
      const movable = ((at - home) & this.#mask) >= ((at - gap) & this.#mask)
      if (!movable) continue
      table[gap * 2 + 1] = table[at * 2 + 1] as number
      table[gap * 2] = table[at * 2] as number
      gap = at
    }
    table[gap * 2] = 0
    table[gap * 2 + 1] = 0
  }

  #taken(at: number): boolean {
    return this.#table[at * 2] !== 0 || this.#table[at * 2 + 1] !== 0
  }

  /** Two hashes of the key in the manner of FNV-1a. The high one is never 0, which marks an empty place. */
  #fingerprint(line: string): void {
    const start = line.indexOf(',')
    const end = line.indexOf(AFTER_KEY, start)
    let low = 0x811c9dc5
    let high = 0x01000193
    // Two at a time; behind the last one stands the comma.
    for (let i = start + 1; i < end; i += 2) {
      const units = line.charCodeAt(i) | (line.charCodeAt(i + 1) << 16)
      low = Math.imul(low ^ units, 0x01000193)
      low ^= low >>> 15
      high = Math.imul(high ^ units, 0x85ebca6b)
      high ^= high >>> 13
    }
    this.#low = low
    this.#high = high === 0 ? 1 : high
  }
}
