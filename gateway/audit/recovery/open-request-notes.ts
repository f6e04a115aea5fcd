import { GATEWAY_ID_CHARS, gatewayIdAt } from '../audit-records.ts'
import { FingerprintTable } from './fingerprint-table.ts'

/** A seat in shared memory begins with the number of its owner. */
const HEAD_WORDS = 2
const WORD_BYTES = 4

/** Entries of the first table, which is small enough for the processor's cache. */
const SMALL = 128
const SMALL_WORDS = FingerprintTable.wordsFor(SMALL)

/** From the comma after the type to the request id, and from its end to the time of day: `HH:MM:SS.mmm`. */
const TO_ID = ',"requestId":"'.length
const TO_TIME = '","timestamp":"YYYY-MM-DDT'.length
const TIME_CHARS = 12

/** @param maxOpen requests open at once, more than 128. @returns the size of a seat for them. */
export function seatBytes(maxOpen: number): number {
  return (HEAD_WORDS + SMALL_WORDS + FingerprintTable.wordsFor(maxOpen - SMALL)) * WORD_BYTES
}

/**
 * The requests that a thread has open, as fingerprints in memory that outlives the thread. They tell its requests from those
 * of other threads when it has died. Requests that a seat has no room for are not noted.
 */
export class OpenRequestNotes {
  readonly #owner: Int32Array
  readonly #small: FingerprintTable
  readonly #large: FingerprintTable
  readonly #fingerprint = { low: 0, high: 0 }

  constructor({ buffer, byteOffset, byteLength }: DataView<SharedArrayBuffer>) {
    const words = new Int32Array(buffer, byteOffset, byteLength / WORD_BYTES)
    this.#owner = words.subarray(0, 1)
    this.#small = new FingerprintTable(words.subarray(HEAD_WORDS, HEAD_WORDS + SMALL_WORDS))
    this.#large = new FingerprintTable(words.subarray(HEAD_WORDS + SMALL_WORDS))
  }

  get count(): number {
    return this.#small.count + this.#large.count
  }

  /** Call it before the API_REQUEST line is written. */
  add(line: string): void {
    this.#fingerprintOf(line)
    if (!this.#small.add(this.#fingerprint)) this.#large.add(this.#fingerprint)
  }

  /**
   * Call it after the API_RESPONSE line was written, or when the API_REQUEST line could not be.
   *
   * @param line either of the two.
   * @returns false when there was no such note.
   */
  remove(line: string): boolean {
    this.#fingerprintOf(line)
    if (this.#small.remove(this.#fingerprint)) return true
    return this.#large.count > 0 && this.#large.remove(this.#fingerprint)
  }

  /** Frees the seat for another thread. */
  release(): void {
    this.#small.clear()
    this.#large.clear()
    Atomics.store(this.#owner, 0, 0)
  }

  /**
   * Two hashes in the manner of FNV-1a: of the gateway's own id where the line has one, else of request id and time of day.
   * A quote in the request id would shift what is hashed, but alike for both lines of a pair.
   */
  #fingerprintOf(line: string): void {
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

  /** Two characters at a time; the last may be the one after the end. */
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
