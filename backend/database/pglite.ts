import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  PGlite,
  type PGliteInterface,
  type Transaction as PGliteTransaction,
  types,
} from '@electric-sql/pglite'
import { dataDir as preparedCluster } from '@electric-sql/pglite-prepopulatedfs'
import { type Database, type Queryable, type Row, retrySerialization } from './database.ts'

/** int8 is read as a bigint, because a number would lose cents above 2^53. */
const PARSERS = { ...types.parsers, [types.INT8]: (text: string) => BigInt(text) }
/** The engine fills its buffers at each start. Its default is 128 MB. */
const BUFFERS = ['-c', 'shared_buffers=16MB']

/** Opens the embedded PostgreSQL in `directory`, or without it in memory. @throws DirectoryInUseError */
export async function openPglite(directory?: string): Promise<Database> {
  if (directory === undefined) return databaseOn(await startEngine(undefined), () => {})
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const unlock = lockDirectory(directory)
  try {
    return databaseOn(await openCluster(directory), unlock)
  } catch (fault) {
    unlock()
    throw fault
  }
}

/** Opens or creates the cluster. A marker stays until a new cluster is complete; only an unfinished cluster is deleted. */
async function openCluster(directory: string): Promise<PGlite> {
  const cluster = join(directory, 'cluster')
  const unfinished = join(directory, 'cluster.unfinished')
  if (existsSync(unfinished)) rmSync(cluster, { recursive: true, force: true })
  else if (existsSync(cluster)) return startEngine(cluster)
  writeFileSync(unfinished, '')
  const engine = await startEngine(cluster)
  rmSync(unfinished)
  return engine
}

async function startEngine(cluster: string | undefined): Promise<PGlite> {
  const isNew = cluster === undefined || !existsSync(cluster)
  const engine = await PGlite.create({
    ...(cluster === undefined ? {} : { dataDir: cluster }),
    // A prepared cluster takes a third of the time of initdb in WebAssembly.
    ...(isNew ? { loadDataDir: await preparedCluster() } : {}),
    startParams: [...PGlite.defaultStartParams, ...BUFFERS],
  })
  // The engine copies its parsers for each statement. The 300 parsers of arrays, unused here, took half of the CPU.
  engine.parsers = PARSERS
  return engine
}

/** Transactions queue on one connection, so none may wait for another one, or for a query outside it. */
function databaseOn(engine: PGlite, unlock: () => void): Database {
  const queryBy =
    (runner: PGliteInterface | PGliteTransaction): Queryable['query'] =>
    async <R extends Row>(sql: string, values: readonly unknown[] = []) =>
      (await runner.query<R>(sql, [...values])).rows
  const query = queryBy(engine)
  return {
    query,
    transaction: (work) =>
      retrySerialization(() =>
        engine.transaction(async (open) => {
          await open.exec('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE')
          return work({ query: queryBy(open), script: async (sql) => void (await open.exec(sql)) })
        }),
      ),
    probe: async () => void (await query('SELECT 1')),
    close: async () => {
      await engine.close()
      unlock()
    },
  }
}

/** The code for a lock that another connection holds (sqlite.org/rescode.html). */
const SQLITE_BUSY = 5

export class DirectoryInUseError extends Error {
  override name = 'DirectoryInUseError'
}

/**
 * Takes the directory for this process. Returns the function that releases it. @throws DirectoryInUseError
 *
 * Node cannot take a kernel lock, but SQLite can. The lock ends with the process and works between containers.
 */
export function lockDirectory(directory: string): () => void {
  const path = join(directory, 'lock')
  let file: DatabaseSync | undefined
  try {
    file = new DatabaseSync(path)
    file.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    file?.close()
    const { errcode, message } = cause as Error & { readonly errcode?: number }
    if (errcode !== SQLITE_BUSY) throw new Error(`${path}: ${message}`, { cause })
    throw new DirectoryInUseError(`${directory} is in use by another backend process`, { cause })
  }
  const taken = file
  return () => taken.close()
}
