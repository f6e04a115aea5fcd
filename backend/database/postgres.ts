import { type ClientBase, DatabaseError, Pool, type PoolClient, TypeOverrides, types } from 'pg'
import {
  type Database,
  DatabaseBusyError,
  DatabaseUnavailableError,
  OutcomeUnknownError,
  type Queryable,
  type Row,
  retrySerialization,
  sqlState,
  type Transaction,
} from './database.ts'

const CONNECT_TIMEOUT_MS = 5_000
const STATEMENT_TIMEOUT_MS = 10_000
/**
 * A step of the schema may rewrite a large table. If it were cut off, each start would begin it again. But it waits for a
 * lock only as long as a statement may take, because all later statements on the table wait behind it.
 */
const SCRIPT_TIMEOUT_MS = 3_600_000
/** A server that stays silent this long after its own statement timeout counts as unreachable. */
const SILENCE_MS = 2_000
export const MAX_CONNECTIONS = 10
const IDLE_MS = 10_000
/** The longest wait in a queue. After it, the first in the queue counts as hanging. */
const QUEUE_TIMEOUT_MS = 1_000
const LOCK_NOT_AVAILABLE = '55P03'

/** Settings to end the sessions of a dead backend, because these hold locks. Keepalives are in s, other times in ms. */
const SESSION_ENDS: Readonly<Record<string, number>> = {
  idle_session_timeout: 3 * IDLE_MS,
  tcp_user_timeout: 10_000,
  tcp_keepalives_idle: 10,
  tcp_keepalives_interval: 5,
  tcp_keepalives_count: 3,
  client_connection_check_interval: 5_000,
}

/** The key of a queue's lock. It contains the schema, because one database may hold several installations. */
const QUEUE_LOCK = "hashtextextended(current_schema() || '\n' || $1, 1)"

/**
 * Opens and tests a pool. @throws DatabaseUnavailableError when the server is not there yet, or the driver's error when the
 * server refuses the password or the database name
 */
export async function openPostgres(options: {
  readonly url: string
  /** Called when an idle connection breaks; the pool replaces it. */
  readonly onIdleFault: (fault: Error) => void
  readonly statementTimeoutMs?: number
  readonly queueTimeoutMs?: number
  /** The longest wait for a connection, free or new. */
  readonly connectTimeoutMs?: number
}): Promise<Database> {
  const parsers = new TypeOverrides()
  // The driver returns int8 as text by default.
  parsers.setTypeParser(types.builtins.INT8, (text) => BigInt(text))
  const { statementTimeoutMs = STATEMENT_TIMEOUT_MS, queueTimeoutMs = QUEUE_TIMEOUT_MS } = options
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  const settings = {
    connectionString: options.url,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    query_timeout: statementTimeoutMs + SILENCE_MS,
    idle_in_transaction_session_timeout: statementTimeoutMs,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    application_name: 'countersign-backend',
    types: parsers,
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
  return {
    query: queryBy(pool),
    transaction: (work, { queueBy = [] } = {}) => {
      // One order everywhere prevents deadlocks.
      const queues = [...new Set(queueBy)].sort()
      return retrySerialization(() => attempt(pool, work, queues, { statementTimeoutMs, queueTimeoutMs }))
    },
    probe: async () => void (await queryBy(probes)('SELECT 1')),
    close: async () => void (await Promise.all([pool.end(), probes.end()])),
  }
}

/**
 * Sets only the settings that this server knows: `idle_session_timeout` came with PostgreSQL 14. Not every platform takes
 * `client_connection_check_interval`: a server on Windows refuses it.
 */
async function setSessionEnds(client: ClientBase): Promise<void> {
  await client.query(
    `SELECT set_config(name, ends.value, false) FROM pg_settings JOIN json_each_text($1) AS ends (name, value) USING (name)
     WHERE name <> 'client_connection_check_interval' OR version() ~ 'linux'`,
    [JSON.stringify(SESSION_ENDS)],
  )
}

async function attempt<T>(
  pool: Pool,
  work: (transaction: Transaction) => Promise<T>,
  queues: readonly string[],
  { statementTimeoutMs, queueTimeoutMs }: { statementTimeoutMs: number; queueTimeoutMs: number },
): Promise<T> {
  const client = await translated(pool.connect())
  const query = queryBy(client)
  let broken: Error | undefined
  const onFault = (fault: Error) => {
    broken = fault
  }
  // Without a listener, a connection that breaks between statements would end the process.
  client.on('error', onFault)
  try {
    // The queue comes before BEGIN, because the snapshot must be younger than the commits that this call waited for.
    for (const queue of queues) await queueUp(query, queue, queueTimeoutMs)
    await query('BEGIN ISOLATION LEVEL SERIALIZABLE')
    const script = async (sql: string) => {
      await query("SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true)", [
        String(SCRIPT_TIMEOUT_MS),
        String(statementTimeoutMs),
      ])
      // The driver's types do not know this option.
      const patient = { text: sql, query_timeout: SCRIPT_TIMEOUT_MS + SILENCE_MS }
      await translated(client.query(patient)).catch((fault: unknown) => {
        if (sqlState(fault) !== LOCK_NOT_AVAILABLE) throw fault
        throw new DatabaseBusyError('a step of the schema waited too long for a lock', { cause: fault })
      })
    }
    const result = await work({ query, script })
    await commit(query)
    return result
  } catch (fault) {
    if (fault instanceof DatabaseUnavailableError) broken = fault
    // A connection that cannot roll back is discarded.
    else await client.query('ROLLBACK').catch(onFault)
    throw fault
  } finally {
    // The server releases the locks of a broken connection itself.
    if (queues.length > 0 && broken === undefined)
      await client.query('SELECT pg_advisory_unlock_all()').catch(onFault)
    client.off('error', onFault)
    client.release(broken)
  }
}

/** Waits at most `timeoutMs`, because the first in the queue may hang. Going on early only costs more attempts. */
async function queueUp(query: Queryable['query'], queue: string, timeoutMs: number): Promise<void> {
  const wait = `SELECT pg_advisory_lock(${QUEUE_LOCK}) FROM set_config('lock_timeout', $2, true)`
  await query(wait, [queue, String(timeoutMs)]).catch((fault: unknown) => {
    if (sqlState(fault) !== LOCK_NOT_AVAILABLE) throw fault
  })
}

async function commit(query: Queryable['query']): Promise<void> {
  try {
    await query('COMMIT')
  } catch (fault) {
    throw fault instanceof DatabaseUnavailableError ? new OutcomeUnknownError(fault.cause) : fault
  }
}

function queryBy(runner: Pool | PoolClient): Queryable['query'] {
  return async <R extends Row>(sql: string, values: readonly unknown[] = []) =>
    (await translated(runner.query<R>(sql, [...values]))).rows
}

async function translated<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (fault) {
    throw postgresFault(fault)
  }
}

/** SQLSTATEs of a server that cannot work now: connection, resources, stopping or starting, system error, standby. */
const UNAVAILABLE = /^(?:08|53|57P|58)|^25006$/
const STATEMENT_TIMEOUT = '57014'
/** The pool's message when no connection became free in time; the error has no code. */
const POOL_IS_FULL = 'timeout exceeded when trying to connect'

/** Classifies a driver's error. Errors of the statement itself stay as they are. */
export function postgresFault(fault: unknown): unknown {
  if (fault instanceof DatabaseError) {
    if (UNAVAILABLE.test(fault.code ?? '')) return new DatabaseUnavailableError(fault)
    if (fault.code === STATEMENT_TIMEOUT)
      return new DatabaseBusyError('a statement took too long', { cause: fault })
    return fault
  }
  // Values that cannot be sent are our own fault.
  if (fault instanceof TypeError || fault instanceof RangeError) return fault
  if (fault instanceof Error && fault.message === POOL_IS_FULL)
    return new DatabaseBusyError('every connection is in use', { cause: fault })
  // A socket failed, a timeout passed, or a stop closed the pool.
  return new DatabaseUnavailableError(fault)
}
