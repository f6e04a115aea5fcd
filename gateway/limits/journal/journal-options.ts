import type { Ignored } from './journal-records.ts'
import type { Write } from './journal-tail.ts'

/**
 * What becomes of a hit under a durable row that cannot be written: it does not count, and its request is not let through
 * (`unready`); or it counts in memory and waits there (`degraded`), and a crash may let more through than the limit.
 */
export type OnJournalFailure = 'unready' | 'degraded'

/** What all threads know of the journal. Looked at and set within a step. */
export interface JournalFlags {
  /** The segment ends in the middle of a line. */
  readonly torn: { raised: boolean }
  /** The last hit that was to be written could not be. */
  readonly failing: { raised: boolean }
}

export interface JournalOptions {
  readonly directory: string
  readonly reports: JournalReports
  /** `degraded` when left out. */
  readonly onFailure?: OnJournalFailure
  /** In place of fs.writeSync. */
  readonly write?: Write
  /** When other threads write to its segments as well. */
  readonly flags?: JournalFlags | undefined
}

/** Whom the journal tells. None is a reason to stop. */
export interface JournalReports {
  /** At load: lines, or a file, that could not be used. */
  ignored(what: Ignored): void
  /** Something could not be written or removed. Hits wait in memory and are tried again with the next one. */
  failed(error: Error): void
  /** Files were removed under the gateway; they are begun anew with everything that counts. */
  removed?(directory: string): void
}
