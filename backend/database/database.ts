/** One row from the driver; callers name the shape of their SELECT list. */
export type Row = Record<string, unknown>

/** Something that runs SQL: the database itself, or an open transaction. */
export interface Queryable {
  /** Runs one statement with `$1 …` parameters. `bigint` arrives as `bigint`, `timestamptz` as `Date`, `uuid` as string. */
  query<R extends Row>(sql: string, values?: readonly unknown[]): Promise<R[]>
}

/** An open transaction; it may also run a script of several statements (migrations). */
export interface Transaction extends Queryable {
  script(sql: string): Promise<void>
}

/**
 * The database of the backend. Calls throw {@link DatabaseUnavailableError} while it is away, {@link OutcomeUnknownError} when
 * it went away after COMMIT was sent, and {@link DatabaseBusyError} when a statement took too long.
 */
export interface Database extends Queryable {
  /**
   * Runs `work` in one SERIALIZABLE transaction, and stores nothing when `work` throws. After a serialisation failure or a
   * deadlock `work` runs again, {@link MAX_ATTEMPTS} times in all, so it must have no effect outside the transaction.
   */
  transaction<T>(work: (transaction: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>
  /** Resolves when the database responds, also while every connection is in use. */
  probe(): Promise<void>
  /** Waits for running statements, then closes files and connections. */
  close(): Promise<void>
}

export interface TransactionOptions {
  /**
   * Ids of rows that many transactions write, such as accounts. Transactions that share an id wait for each other, on all
   * backends, instead of making each other start again. Correctness does not depend on it.
   */
  readonly queueBy?: readonly string[]
}

export const MAX_ATTEMPTS = 20

const BACKOFF_STEP_MS = 4
const BACKOFF_CAP_MS = 150

/** Concurrent transactions made every attempt fail, or a statement took too long, or no connection was free. Nothing changed. */
export class DatabaseBusyError extends Error {
  override name = 'DatabaseBusyError'
}

/** The database cannot be reached, or the connection broke. It is unknown whether the running statement took effect. */
export class DatabaseUnavailableError extends Error {
  override name = 'DatabaseUnavailableError'

  constructor(cause: unknown) {
    const { message, code } = cause as NodeJS.ErrnoException
    // When a name has several addresses, the driver's message is empty.
    super(`the database cannot be reached: ${message || code || String(cause)}`, { cause })
  }
}

/** The response to COMMIT was lost. If the work is repeated, it may happen twice. */
export class OutcomeUnknownError extends DatabaseUnavailableError {
  override name = 'OutcomeUnknownError'
}

/** SQLSTATE of a database error, whichever driver threw it; `undefined` for any other error. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** Repeats `attempt` after serialisation failures (SQLSTATE 40001) and deadlocks (40P01), with a random pause between. */
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
      // Full jitter, so that transactions that collided once do not collide again.
      const pauseMs = Math.random() * Math.min(BACKOFF_CAP_MS, BACKOFF_STEP_MS * 2 ** tried)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}
