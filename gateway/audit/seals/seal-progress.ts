/** What the thread that seals tells the others, in shared memory. */
const SIZE = 0
const UNSEALED = 1
const SETTLED_AT = 2
const FLOATS = 3

/** Steady milliseconds: the same clock in all threads. */
export function steadyMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** How far the trail is sealed. Written by one thread. */
export class SealProgress {
  readonly buffer: SharedArrayBuffer
  readonly #floats: Float64Array

  constructor(buffer = new SharedArrayBuffer(FLOATS * 8)) {
    this.buffer = buffer
    this.#floats = new Float64Array(buffer)
  }

  /** Leaves of the tree that its checkpoint covers. */
  get sealedSize(): number {
    return this.#floats[SIZE] as number
  }

  set sealedSize(leaves: number) {
    this.#floats[SIZE] = leaves
  }

  /** Lines that were read and are not sealed, without AUDIT_SEAL lines. */
  get unsealedRecords(): number {
    return this.#floats[UNSEALED] as number
  }

  set unsealedRecords(lines: number) {
    this.#floats[UNSEALED] = lines
  }

  /** Everything that the trail had at this time is sealed: `steadyMs`. */
  get settledAtMs(): number {
    return this.#floats[SETTLED_AT] as number
  }

  set settledAtMs(ms: number) {
    this.#floats[SETTLED_AT] = ms
  }
}
