import { randomness } from './randomness.ts'

/** A trace of ours (W3C Trace Context section 3.2). Flag 00: nobody has decided to sample it. */
export function newTraceparent(): string {
  const id = randomness(24).toString('hex')
  return `00-${id.slice(0, 32)}-${id.slice(32)}-00`
}
