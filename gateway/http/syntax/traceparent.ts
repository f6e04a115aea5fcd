import { HexText } from './hex-text.ts'
import { randomness } from './randomness.ts'

/** Version, trace id, parent id, flags. Flag 00: nobody has decided to sample it. */
const TRACEPARENT = new HexText(`00-${'##'.repeat(16)}-${'##'.repeat(8)}-00`)

/** A trace of ours (W3C Trace Context section 3.2). */
export function newTraceparent(): string {
  return TRACEPARENT.of(randomness(24))
}
