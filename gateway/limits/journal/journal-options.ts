import type { Write } from '../../storage/append-log.ts'
import type { Ignored } from './journal-records.ts'

/**
 * What to do with a hit of a durable row that cannot be written. `unready`: do not count it, refuse the request.
 * `degraded`: count it in memory and write it later; after a crash more than the limit may be allowed.
 */
export type OnJournalFailure = 'unready' | 'degraded'

/** After a failed write the next attempt waits this long: one attempt can cost milliseconds on a full disk. */
export const RETRY_MS = 250

export interface JournalOptions {
  readonly directory: string
  readonly reports: JournalReports
  /** `degraded` when left out. */
  readonly onFailure?: OnJournalFailure
  /** In place of fs.writeSync. */
  readonly write?: Write
}

/** Reports of the journal. None of them stops the gateway. */
export interface JournalReports {
  /** At load: lines, or a file, that could not be used. */
  ignored(what: Ignored): void
  /** Something could not be written or removed. Hits wait in memory and are tried again with the next one. */
  failed(error: Error): void
  /** Files were removed under the gateway; they are made again with every current count. */
  removed?(directory: string): void
}
