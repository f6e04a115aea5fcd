import { randomFillSync } from 'node:crypto'

/** Small, because an id keeps the digits of its neighbours in memory. */
const random = Buffer.allocUnsafeSlow(1024)
let digits = ''
let used = 0

/**
 * At most 2,048 random lower-case hexadecimal digits, never given out twice. The system is asked for many at once, and parts of a
 * text cost less than texts of their own.
 */
export function randomHex(count: number): string {
  if (used + count > digits.length) {
    digits = randomFillSync(random).toString('hex')
    used = 0
  }
  used += count
  return digits.slice(used - count, used)
}
