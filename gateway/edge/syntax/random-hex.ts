import { randomFillSync } from 'node:crypto'

/** Small, because an id keeps the digits of its neighbours in memory. */
const random = Buffer.allocUnsafeSlow(1024)
let digits = ''
let used = 0

/** Random lower-case hexadecimal digits, at most 2,048, never given out twice. Parts of one text are cheap. */
export function randomHex(count: number): string {
  if (used + count > digits.length) {
    digits = randomFillSync(random).toString('hex')
    used = 0
  }
  used += count
  return digits.slice(used - count, used)
}
