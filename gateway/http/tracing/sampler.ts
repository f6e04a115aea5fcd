import type { Sampling } from '../../config/tracing-settings.ts'
import { flagsIn, SAMPLED } from './trace.ts'

/** The digits of a trace id that decide: its last, which Trace Context level 2 wants random. */
const DECIDING_DIGITS = 12
const DECIDING_VALUES = 2 ** 48

/** Decides which requests get spans. */
export class Sampler {
  readonly #sampling: Sampling

  constructor(sampling: Sampling) {
    this.#sampling = sampling
  }

  /** @param viaTrustedProxy the traceparent came from a trusted proxy */
  takesChild(traceparent: string, viaTrustedProxy: boolean): boolean {
    const { parents, ratio } = this.#sampling
    if (parents === 'all' || (parents === 'trusted' && viaTrustedProxy)) {
      return (flagsIn(traceparent) & SAMPLED) !== 0
    }
    // Not by the trace id: the caller made it, and could choose one that is always taken.
    return Math.random() < ratio
  }

  /** For the first span of a trace: by its id, so that others with the same rule and ratio decide alike. */
  takesRoot(traceId: string): boolean {
    const { ratio } = this.#sampling
    return ratio >= 1 || Number.parseInt(traceId.slice(-DECIDING_DIGITS), 16) < ratio * DECIDING_VALUES
  }
}
