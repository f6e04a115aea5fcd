import { randomFillSync } from 'node:crypto'

const DIGITS = Buffer.from('0123456789abcdef', 'latin1')
/** Random bytes, made by one call of the system, because a call for each id would be slow. */
const POOL = Buffer.allocUnsafeSlow(8 * 1024)
let used = POOL.length

/** At most 8 KiB of random bytes, never given out twice. Valid until the next call. */
export function randomness(bytes: number): Buffer {
  if (used + bytes > POOL.length) {
    randomFillSync(POOL)
    used = 0
  }
  used += bytes
  return POOL.subarray(used - bytes, used)
}

/** A fixed text with bytes in it as hexadecimal digits; much faster to make than by concatenation. */
export class HexText {
  readonly #text: Buffer
  /** The position of each byte's digits. */
  readonly #places: Uint8Array

  /** @param form ASCII, at most 256 characters, with `##` for each byte */
  constructor(form: string) {
    this.#text = Buffer.from(form, 'latin1')
    this.#places = Uint8Array.from(form.matchAll(/##/g), ({ index }) => index)
  }

  /** @param bytes as many as the form has places; more are ignored */
  of(bytes: Uint8Array): string {
    const text = this.#text
    const places = this.#places
    for (let i = 0; i < places.length; i++) {
      const at = places[i] as number
      const byte = bytes[i] as number
      text[at] = DIGITS[byte >>> 4] as number
      text[at + 1] = DIGITS[byte & 15] as number
    }
    return text.toString('latin1')
  }
}
