// Places in the memory that both threads share.
const SIZE = 0
const UNSEALED = 1
const OLDEST_AT = 2
const TAKEN = 3
const MENDS = 4
const FLOATS = 5

/** Steady milliseconds, equal in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** How far the trail is sealed: written by the sealing thread, initialised by the main thread. */
export class SealProgress {
  readonly buffer: SharedArrayBuffer
  readonly #floats: Float64Array

  constructor(buffer?: SharedArrayBuffer) {
    this.buffer = buffer ?? new SharedArrayBuffer(FLOATS * 8)
    this.#floats = new Float64Array(this.buffer)
    if (buffer === undefined) this.oldestAtMs = Number.POSITIVE_INFINITY
    // A dead thread rewrites nothing.
    this.mends += this.mends % 2
  }

  get sealedSize(): number {
    return this.#floats[SIZE] as number
  }

  set sealedSize(leaves: number) {
    this.#floats[SIZE] = leaves
  }

  /** Lines in the thread that are not sealed, without AUDIT_SEAL lines. */
  get unsealedRecords(): number {
    return this.#floats[UNSEALED] as number
  }

  set unsealedRecords(lines: number) {
    this.#floats[UNSEALED] = lines
  }

  /** No unsealed record in the thread is older: `steadyMs`. Infinite: all are sealed. */
  get oldestAtMs(): number {
    return this.#floats[OLDEST_AT] as number
  }

  set oldestAtMs(ms: number) {
    this.#floats[OLDEST_AT] = ms
  }

  /** Bytes of lines that the thread has taken of those it was sent. */
  get takenBytes(): number {
    return this.#floats[TAKEN] as number
  }

  set takenBytes(bytes: number) {
    this.#floats[TAKEN] = bytes
  }

  /** As `TrailSeals.mends`. */
  get mends(): number {
    return this.#floats[MENDS] as number
  }

  set mends(count: number) {
    this.#floats[MENDS] = count
  }
}
