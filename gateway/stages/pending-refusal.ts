import type { Refusal } from '../refusals.ts'

/** What a stage returns when its outcome is not known yet. Cheaper than a promise for each request. */
export interface PendingRefusal {
  /** @param run called once: with the refusal, undefined when the request goes on, or a fault of the gateway */
  whenKnown(run: (outcome: Refusal | Error | undefined) => void): void
}
