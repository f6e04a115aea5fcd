import { randomFillSync } from 'node:crypto'

/** Taken from the system in portions: a call for each id costs many times its bytes. */
const POOL = Buffer.allocUnsafeSlow(8 * 1024)
let used = POOL.length

/** Random bytes, at most 8 KiB of them, that are nobody else's; good until the next call. */
export function randomness(bytes: number): Buffer {
  if (used + bytes > POOL.length) {
    randomFillSync(POOL)
    used = 0
  }
  used += bytes
  return POOL.subarray(used - bytes, used)
}
