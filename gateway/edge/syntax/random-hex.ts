import { randomFillSync } from 'node:crypto'

/** Small, because each id keeps the whole text of digits in memory. */
const random = Buffer.allocUnsafeSlow(1024)
let digits = ''
let used = 0

/** Random lower-case hexadecimal digits, at most 2,048, never given out twice. Cutting them from one text is cheap. */
export function randomHex(count: number): string {
  if (used + count > digits.length) {
    digits = randomFillSync(random).toString('hex')
    used = 0
  }
  used += count
  return digits.slice(used - count, used)
}
