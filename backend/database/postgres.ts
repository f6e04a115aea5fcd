import { type ClientBase, Pool, type PoolClient, TypeOverrides } from 'pg'
import {
  type Database,
  DatabaseUnavailableError,
  OutcomeUnknownError,
  type Row,
  retrySerialization,
  sqlState,
  type Transaction,
  type TransactionOptions,
} from './database.ts'
import { postgresFault } from './postgres-faults.ts'

/** OID of int8; the driver's default is a string. */
const INT8 = 20

const CONNECT_TIMEOUT_MS = 5_000
const STATEMENT_TIMEOUT_MS = 10_000
/** So long after the server's own statement timeout, the server counts as unreachable. */
const SILENCE_MS = 2_000
export const MAX_CONNECTIONS = 10
/** After this the pool closes a connection that nobody uses. */
const IDLE_MS = 10_000
/** A queue that has not moved on after this is one that somebody holds who hangs. */
const QUEUE_TIMEOUT_MS = 1_000
const LOCK_NOT_AVAILABLE = '55P03'

/**
 * By these the server ends the sessions of a backend that hangs (outside a transaction; within one there is a timeout of its
 * own) or whose host has gone: until then they keep their locks. Milliseconds, but of keepalives seconds.
 */
const SESSION_ENDS: Readonly<Record<string, number>> = {
  idle_session_timeout: 3 * IDLE_MS,
  tcp_user_timeout: 10_000,
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 3,
}

/** By schema too, because a database may hold several installations. */
const QUEUE_LOCK = "hashtextextended(current_schema() || '\n' || $1, 1)"

export interface PostgresOptions {
  /** `postgres://…`, also with the driver's query parameters (sslmode, options …). */
  readonly url: string
  /** Called when an idle connection breaks; the pool replaces it. */
  readonly onIdleFault: (fault: Error) => void
  readonly statementTimeoutMs?: number
  readonly queueTimeoutMs?: number
}

/**
 * Opens a pool to a PostgreSQL server and tests it with one statement. Throws {@link DatabaseUnavailableError} when the
 * server is not there yet, and the driver's error when it refuses (password, name of the database).
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const types = new TypeOverrides()
  types.setTypeParser(INT8, (text) => BigInt(text))
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS, queueTimeoutMs = QUEUE_TIMEOUT_MS } = options
  const settings = {
    connectionString: options.url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + SILENCE_MS,
    idle_in_transaction_session_timeout: statementTimeoutMs,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    application_name: 'countersign-backend',
    types,
    onConnect: setSessionEnds,
  }
  const pool = new Pool({ ...settings, max: MAX_CONNECTIONS })
  const probes = new Pool({ ...settings, max: 1 })
  for (const each of [pool, probes]) each.on('error', options.onIdleFault)
  try {
    await pool.query('SELECT 1')
  } catch (fault) {
    await pool.end()
    throw postgresFault(fault)
  }
  return new PostgresDatabase(pool, probes, queueTimeoutMs)
}

/** Only what this server knows: `idle_session_timeout` is of PostgreSQL 14. */
async function setSessionEnds(client: ClientBase): Promise<void> {
  await client.query(
    'SELECT set_config(name, ends.value, false) FROM pg_settings JOIN json_each_text($1) AS ends (name, value) USING (name)',
    [JSON.stringify(SESSION_ENDS)],
  )
}

class PostgresDatabase implements Database {
  readonly #pool: Pool
  readonly #probes: Pool
  readonly #queueTimeoutMs: number

  constructor(pool: Pool, probes: Pool, queueTimeoutMs: number) {
    this.#pool = pool
    this.#probes = probes
    this.#queueTimeoutMs = queueTimeoutMs
  }

  query<R extends Row>(sql: string, values: readonly unknown[] = []): Promise<R[]> {
    return rows<R>(this.#pool, sql, values)
  }

  transaction<T>(
    work: (transaction: Transaction) => Promise<T>,
    { queueBy = [] }: TransactionOptions = {},
  ): Promise<T> {
    // In one order everywhere, so that no two wait for each other.
    const queues = [...new Set(queueBy)].sort()
    return retrySerialization(() => this.#attempt(work, queues))
  }

  async #attempt<T>(work: (transaction: Transaction) => Promise<T>, queues: readonly string[]): Promise<T> {
    const client = await translated(this.#pool.connect())
    let broken: Error | undefined
    // A connection that breaks between two statements emits this, which without a listener would end the process. The next
    // statement fails and handles it.
    const onFault = (fault: Error) => {
      broken = fault
    }
    client.on('error', onFault)
    try {
      // Before the transaction, whose snapshot must be younger than the commits that it waited for.
      for (const queue of queues) await this.#queueUp(client, queue)
      await translated(client.query('BEGIN ISOLATION LEVEL SERIALIZABLE'))
      const result = await work({
        query: <R extends Row>(sql: string, values: readonly unknown[] = []) => rows<R>(client, sql, values),
        script: async (sql) => void (await translated(client.query(sql))),
      })
      await commit(client)
      return result
    } catch (fault) {
      if (fault instanceof DatabaseUnavailableError) {
        broken = fault
        throw fault
      }
      // A connection that cannot roll back is discarded with its transaction.
      await client.query('ROLLBACK').catch((rollbackFault: Error) => {
        broken = rollbackFault
      })
      throw fault
    } finally {
      // A broken connection gives its locks back with itself.
      if (queues.length > 0 && broken === undefined) {
        await client.query('SELECT pg_advisory_unlock_all()').catch((unlockFault: Error) => {
          broken = unlockFault
        })
      }
      client.off('error', onFault)
      client.release(broken)
    }
  }

  /** Waits for its turn, but goes on without it when whoever has it hangs: that only costs attempts. */
  async #queueUp(client: PoolClient, queue: string): Promise<void> {
    // The timeout is for this statement, which is a transaction of its own.
    const wait = `SELECT pg_advisory_lock(${QUEUE_LOCK}) FROM set_config('lock_timeout', $2, true)`
    await rows(client, wait, [queue, String(this.#queueTimeoutMs)]).catch((fault: unknown) => {
      if (sqlState(fault) !== LOCK_NOT_AVAILABLE) throw fault
    })
  }

  async probe(): Promise<void> {
    await rows(this.#probes, 'SELECT 1', [])
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#probes.end()])
  }
}

async function commit(client: PoolClient): Promise<void> {
  try {
    await translated(client.query('COMMIT'))
  } catch (fault) {
    throw fault instanceof DatabaseUnavailableError ? new OutcomeUnknownError(fault.cause) : fault
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
