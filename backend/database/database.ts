export type Row = Record<string, unknown>

export interface Queryable {
  /** Runs one statement with `$1 …` parameters. `bigint` arrives as `bigint`, `timestamptz` as `Date`, `uuid` as string. */
  query<R extends Row>(sql: string, values?: readonly unknown[]): Promise<R[]>
}

/** An open transaction, which may also run a script of several statements. */
export interface Transaction extends Queryable {
  script(sql: string): Promise<void>
}

/**
 * Calls throw {@link DatabaseUnavailableError} while the database is away, {@link OutcomeUnknownError} when it went away after
 * COMMIT was sent, and {@link DatabaseBusyError} when it was too busy.
 */
export interface Database extends Queryable {
  /**
   * Runs `work` in one SERIALIZABLE transaction, and stores nothing when it throws. After a serialisation failure or
   * deadlock `work` runs again, {@link MAX_ATTEMPTS} times in all, so it must have no effect outside the transaction.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Resolves when the database responds, even while every connection is in use. */
  probe(): Promise<void>
  close(): Promise<void>
}

export interface TransactionOptions {
  /**
   * Ids of rows that many transactions write, such as accounts. Transactions with a common id wait for each other,
   * across all backends, instead of starting again. Correctness does not depend on this.
   */
  readonly queueBy?: readonly string[]
}

export const MAX_ATTEMPTS = 20

const BACKOFF_STEP_MS = 4
const BACKOFF_CAP_MS = 150

/** Every attempt collided, a statement took too long or no connection was free. Nothing changed. */
export class DatabaseBusyError extends Error {
  override name = 'DatabaseBusyError'
}

/** The database cannot be reached. It is unknown whether the running statement took effect. */
export class DatabaseUnavailableError extends Error {
  override name = 'DatabaseUnavailableError'

  constructor(cause: unknown) {
    const { message, code } = cause as NodeJS.ErrnoException
    // The driver's message is empty for a name with several addresses.
    super(`the database cannot be reached: ${message || code || String(cause)}`, { cause })
  }
}

/** The response to COMMIT was lost. If the work is repeated, it may happen twice. */
export class OutcomeUnknownError extends DatabaseUnavailableError {
  override name = 'OutcomeUnknownError'
}

/** SQLSTATE of any driver's error; `undefined` for other errors. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Repeats `attempt` after serialisation failures (SQLSTATE 40001) and deadlocks (40P01). */
export async function retrySerialization<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await attempt()
    } catch (error) {
      const state = sqlState(error)
      if (state !== '40001' && state !== '40P01') throw error
      if (tried === MAX_ATTEMPTS) {
        throw new DatabaseBusyError(`gave up after ${MAX_ATTEMPTS} attempts`, { cause: error })
      }
      // Full jitter keeps transactions from colliding again.
      const pauseMs = Math.random() * Math.min(BACKOFF_CAP_MS, BACKOFF_STEP_MS * 2 ** tried)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}
