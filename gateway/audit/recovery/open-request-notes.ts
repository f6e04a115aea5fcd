import { GATEWAY_ID_CHARS, gatewayIdAt } from '../audit-records.ts'
import { FingerprintTable } from './fingerprint-table.ts'

/** A seat in shared memory begins with its owner. */
const HEAD_WORDS = 2
const WORD_BYTES = 4

/** So few are kept in a table that stays in the processor's cache; one for thousands would be anywhere but there. */
const NEAR = 128
const NEAR_WORDS = FingerprintTable.wordsFor(NEAR)

/** From the comma behind the type to the request id, and from its end to the time of the day: `HH:MM:SS.mmm`. */
const TO_ID = ',"requestId":"'.length
const TO_TIME = '","timestamp":"YYYY-MM-DDT'.length
const TIME_CHARS = 12

/** Size of a seat for so many requests open at once. @param maxOpen more than 128. */
export function seatBytes(maxOpen: number): number {
  return (HEAD_WORDS + NEAR_WORDS + FingerprintTable.wordsFor(maxOpen - NEAR)) * WORD_BYTES
}

/**
 * Which requests a thread has open, by fingerprints of their keys in memory that outlives the thread: what it left behind
 * can then be told from what the others still work on. What a seat has no room for is not noted.
 */
export class OpenRequestNotes {
  readonly #owner: Int32Array
  readonly #near: FingerprintTable
  readonly #far: FingerprintTable
  readonly #fingerprint = { low: 0, high: 0 }

  constructor({ buffer, byteOffset, byteLength }: DataView<SharedArrayBuffer>) {
    const words = new Int32Array(buffer, byteOffset, byteLength / WORD_BYTES)
    this.#owner = words.subarray(0, 1)
    this.#near = new FingerprintTable(words.subarray(HEAD_WORDS, HEAD_WORDS + NEAR_WORDS))
    this.#far = new FingerprintTable(words.subarray(HEAD_WORDS + NEAR_WORDS))
  }

  get count(): number {
    return this.#near.count + this.#far.count
  }

  /** Before its API_REQUEST line is written. */
  add(line: string): void {
    this.#take(line)
    if (!this.#near.add(this.#fingerprint)) this.#far.add(this.#fingerprint)
  }

  /**
   * After its API_RESPONSE line was written, or when its API_REQUEST could not be.
   *
   * @param line either of the two.
   * @returns false when there was no such note.
   */
  remove(line: string): boolean {
    this.#take(line)
    if (this.#near.remove(this.#fingerprint)) return true
    return this.#far.count > 0 && this.#far.remove(this.#fingerprint)
  }

  /** Leaves the seat to whoever wants it. */
  release(): void {
    this.#near.clear()
    this.#far.clear()
    Atomics.store(this.#owner, 0, 0)
  }

  /**
   * Two hashes in the manner of FNV-1a: of the gateway's own id where the line has one, else of request id and time. With a
   * quote in the request id, which no caller's has, other characters are hashed, but of both lines the same.
   */
  #take(line: string): void {
    this.#fingerprint.low = 0x811c9dc5 | 0
    this.#fingerprint.high = 0x01000193
    const idAt = gatewayIdAt(line)
    if (idAt === -1) this.#hashRequestId(line)
    else this.#hash(line, idAt, idAt + GATEWAY_ID_CHARS)
    if (this.#fingerprint.high === 0) this.#fingerprint.high = 1
  }

  #hashRequestId(line: string): void {
    const idStart = line.indexOf(',') + TO_ID
    const idEnd = line.indexOf('"', idStart)
    this.#hash(line, idStart, idEnd)
    this.#hash(line, idEnd + TO_TIME, idEnd + TO_TIME + TIME_CHARS)
  }

  /** Two characters at a time, the last of which may be the one behind the end. */
  #hash(line: string, start: number, end: number): void {
    let { low, high } = this.#fingerprint
    for (let i = start; i < end; i += 2) {
      const units = line.charCodeAt(i) | (line.charCodeAt(i + 1) << 16)
      low = Math.imul(low ^ units, 0x01000193)
      low ^= low >>> 15
      high = Math.imul(high ^ units, 0x85ebca6b)
      high ^= high >>> 13
    }
    this.#fingerprint.low = low
    this.#fingerprint.high = high
  }
}
