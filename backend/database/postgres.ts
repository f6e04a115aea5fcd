import { Pool, type PoolClient, TypeOverrides } from 'pg'
import {
  type Database,
  DatabaseUnavailableError,
  type Row,
  retrySerialization,
  type Transaction,
} from './database.ts'
import { postgresFault } from './postgres-faults.ts'

/** OID of int8; the driver's default is a string. */
const INT8 = 20

const CONNECT_TIMEOUT_MS = 5_000
const STATEMENT_TIMEOUT_MS = 10_000
/** How much later than by the server's own clock a statement is given up: then the server cannot be reached. */
const SILENCE_MS = 2_000
const MAX_CONNECTIONS = 10

export interface PostgresOptions {
  /** `postgres://…`, also with the driver's query parameters (sslmode, options …). */
  readonly url: string
  /** Told of a connection that broke while nobody used it; the pool replaces it by itself. */
  readonly onIdleFault: (fault: Error) => void
  readonly statementTimeoutMs?: number
}

/**
 * Opens a pool to a PostgreSQL server and proves it with one statement. Throws {@link DatabaseUnavailableError} when the
 * server is not there yet, and the driver's error when it refuses (password, name of the database).
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const types = new TypeOverrides()
  types.setTypeParser(INT8, (text) => BigInt(text))
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS } = options
  const pool = new Pool({
    connectionString: options.url,
    max: MAX_CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + SILENCE_MS,
    idle_in_transaction_session_timeout: statementTimeoutMs,
    keepAlive: true,
    application_name: 'countersign-backend',
    types,
  })
  pool.on('error', options.onIdleFault)
  try {
    await pool.query('SELECT 1')
  } catch (fault) {
    await pool.end()
    throw postgresFault(fault)
  }
  return new PostgresDatabase(pool)
}

class PostgresDatabase implements Database {
  readonly #pool: Pool

  constructor(pool: Pool) {
    this.#pool = pool
  }

  query<R extends Row>(sql: string, values: readonly unknown[] = []): Promise<R[]> {
    return rows<R>(this.#pool, sql, values)
  }

  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return retrySerialization(() => this.#attempt(work))
  }

  async #attempt<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await translated(this.#pool.connect())
    let broken: Error | undefined
    // A connection that breaks between two statements emits this, and without a listener it ends the process. The
    // next statement on it fails, which is where it is dealt with.
    const onFault = (fault: Error) => {
      broken = fault
    }
    client.on('error', onFault)
    try {
      await translated(client.query('BEGIN ISOLATION LEVEL SERIALIZABLE'))
      const result = await work({
        query: <R extends Row>(sql: string, values: readonly unknown[] = []) => rows<R>(client, sql, values),
        script: async (sql) => void (await translated(client.query(sql))),
      })
      await translated(client.query('COMMIT'))
      return result
    } catch (fault) {
      if (fault instanceof DatabaseUnavailableError) {
        broken = fault
        throw fault
      }
      // A connection that cannot even roll back is thrown away with whatever transaction it still has.
      await client.query('ROLLBACK').catch((rollbackFault: Error) => {
        broken = rollbackFault
      })
      throw fault
    } finally {
      client.off('error', onFault)
      client.release(broken)
    }
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}

async function rows<R extends Row>(
  runner: Pool | PoolClient,
  sql: string,
  values: readonly unknown[],
): Promise<R[]> {
  return (await translated(runner.query<R>(sql, [...values]))).rows
}

async function translated<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (fault) {
    throw postgresFault(fault)
  }
}
