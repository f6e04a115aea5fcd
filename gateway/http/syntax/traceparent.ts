import { HexText } from './hex-text.ts'
import { randomness } from './randomness.ts'

/** Version, trace id, parent id, flags. Flags 00: not sampled. */
const TRACEPARENT = new HexText(`00-${'##'.repeat(16)}-${'##'.repeat(8)}-00`)

/** Begins a new trace (W3C Trace Context section 3.2). */
export function newTraceparent(): string {
  return TRACEPARENT.of(randomness(24))
}
