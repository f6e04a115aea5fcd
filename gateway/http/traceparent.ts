import { randomFillSync } from 'node:crypto'

const ID_BYTES = 24
/** Randomness is taken from the system in portions: a call for each trace costs many times its bytes. */
const POOL = Buffer.allocUnsafeSlow(ID_BYTES * 256)
let used = POOL.length

/** A trace of ours (W3C Trace Context section 3.2). Flag 00: nobody has decided to sample it. */
export function newTraceparent(): string {
  if (used === POOL.length) {
    randomFillSync(POOL)
    used = 0
  }
  const id = POOL.toString('hex', used, used + ID_BYTES)
  used += ID_BYTES
  return `00-${id.slice(0, 32)}-${id.slice(32)}-00`
}
