// Places in the memory that the thread that seals shares with the main one.
const SIZE = 0
const UNSEALED = 1
const OLDEST_AT = 2
const TAKEN = 3
const MENDS = 4
const FLOATS = 5

/** Steady milliseconds: the same clock in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** How far the trail is sealed. The thread that seals writes it; the main thread sets what that one begins with. */
export class SealProgress {
  readonly buffer: SharedArrayBuffer
  readonly #floats: Float64Array

  constructor(buffer?: SharedArrayBuffer) {
    this.buffer = buffer ?? new SharedArrayBuffer(FLOATS * 8)
    this.#floats = new Float64Array(this.buffer)
    if (buffer === undefined) this.oldestAtMs = Number.POSITIVE_INFINITY
    // A thread that has died writes nothing again.
    this.mends += this.mends % 2
  }

  /** Leaves of the tree that its checkpoint covers. */
  get sealedSize(): number {
    return this.#floats[SIZE] as number
  }

  set sealedSize(leaves: number) {
    this.#floats[SIZE] = leaves
  }

  /** Lines that are in the thread and not sealed, without AUDIT_SEAL lines. */
  get unsealedRecords(): number {
    return this.#floats[UNSEALED] as number
  }

  set unsealedRecords(lines: number) {
    this.#floats[UNSEALED] = lines
  }

  /** No record that the thread has, or reads, and has not sealed was there before: `steadyMs`. Infinite: all are sealed. */
  get oldestAtMs(): number {
    return this.#floats[OLDEST_AT] as number
  }

  set oldestAtMs(ms: number) {
    this.#floats[OLDEST_AT] = ms
  }

  /** Bytes of lines that the thread has taken, of all that it was sent. */
  get takenBytes(): number {
    return this.#floats[TAKEN] as number
  }

  set takenBytes(bytes: number) {
    this.#floats[TAKEN] = bytes
  }

  /** How often the thread has begun or ended to write bytes of the trail again in their place. Odd: it does so now. */
  get mends(): number {
    return this.#floats[MENDS] as number
  }

  set mends(count: number) {
    this.#floats[MENDS] = count
  }
}
