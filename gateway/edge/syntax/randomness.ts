import { randomFillSync } from 'node:crypto'

/** Filled by the system at once, because a call for each id would be slow. */
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
