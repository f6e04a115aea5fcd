import type { Ignored } from './journal-records.ts'
import type { Write } from './journal-tail.ts'

/**
 * What to do with a hit of a durable row that cannot be written. `unready`: do not count it, refuse the request.
 * `degraded`: count it in memory and write it later; after a crash more than the limit may be allowed.
 */
export type OnJournalFailure = 'unready' | 'degraded'

/** The journal's state, shared by all threads. Read and set only inside a turn. */
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

/** Reports of the journal. None of them stops the gateway. */
export interface JournalReports {
  /** At load: lines, or a file, that could not be used. */
  ignored(what: Ignored): void
  /** Something could not be written or removed. Hits wait in memory and are tried again with the next one. */
  failed(error: Error): void
  /** Files were removed under the gateway; they are begun anew with everything that counts. */
  removed?(directory: string): void
}
