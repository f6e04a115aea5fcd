import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Client } from 'pg'
import type { Database } from '../database/database.ts'
import { migrate } from '../database/migrations.ts'
import { openPglite } from '../database/pglite.ts'
import { openPostgres } from '../database/postgres.ts'
import './compile-once.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'

/**
 * Describes behaviour on the embedded database and on PostgreSQL. `describeBehaviour` is called for each with a
 * function that gives the migrated database while tests run. Without TEST_DATABASE_URL tests on PostgreSQL are skipped.
 */
export function onEachDatabase(subject: string, describeBehaviour: (database: () => Database) => void): void {
  describe(`${subject}, on PGlite`, () => withDatabase(openTestPglite, describeBehaviour))
  onPostgres(subject, describeBehaviour)
}

/** The PostgreSQL half of {@link onEachDatabase}, for tests that need several connections. */
export function onPostgres(subject: string, describeBehaviour: (database: () => Database) => void): void {
  const url = process.env.TEST_DATABASE_URL
  if (url === undefined) {
    // The runner counts skipped tests, not suites.
    it(`${subject}, on PostgreSQL`, {
      skip: 'TEST_DATABASE_URL names no PostgreSQL server, such as postgres://postgres@127.0.0.1:5432/postgres (apt-get install postgresql)',
    })
    return
  }
  describe(`${subject}, on PostgreSQL`, () => withDatabase(() => openTestPostgres(url), describeBehaviour))
}

/** Makes a schema on the server behind a proxy that can be cut. `drop` removes the schema. */
export async function openBehindProxy(
  options: { readonly isCut?: boolean } = {},
): Promise<{ readonly url: string; readonly proxy: TcpProxy; readonly drop: () => Promise<void> }> {
  const server = process.env.TEST_DATABASE_URL
  if (server === undefined) throw new Error('TEST_DATABASE_URL names no PostgreSQL server')
  const { schema, url } = await makeSchema(server)
  const way = new URL(url)
  const proxy = await startTcpProxy({ host: way.hostname, port: Number(way.port || 5432) }, options)
  way.host = `127.0.0.1:${proxy.port}`
  return { url: way.href, proxy, drop: () => administer(server, `DROP SCHEMA ${schema} CASCADE`) }
}

function withDatabase(
  open: () => Promise<Database>,
  describeBehaviour: (database: () => Database) => void,
): void {
  let opened: Database | undefined
  before(async () => {
    opened = await open()
    await migrate(opened)
  })
  after(() => opened?.close())
  describeBehaviour(() => {
    if (opened === undefined) throw new Error('the database is open only while tests run')
    return opened
  })
}

/** Engines that no test uses now. Starting one takes a second of CPU, and making its tables 0.15 s. */
const idleEngines: Database[] = []
// An open engine sometimes keeps its process from ending.
after(() => Promise.all(idleEngines.map((engine) => engine.close())))

/** Removes all rows while triggers are off, because the ledger's triggers refuse it. */
const EMPTY_TABLES = `
SET LOCAL session_replication_role = replica;
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
    EXECUTE format('DELETE FROM %I', name);
  END LOOP;
END $$`

/** Opens an embedded database without rows. It is new, or another test of this process has used and emptied it. */
export async function openTestPglite(): Promise<Database> {
  const engine = idleEngines.pop() ?? (await openPglite())
  return {
    ...engine,
    close: async () => {
      await engine.transaction(({ script }) => script(EMPTY_TABLES))
      idleEngines.push(engine)
    },
  }
}

/** The tests' timeout for a queue and a connection, so long that a slow machine ends no wait. */
const PATIENT_MS = 60_000

async function openTestPostgres(url: string): Promise<Database> {
  const { schema, url: own } = await makeSchema(url)
  const onIdleFault = (fault: Error) => {
    throw fault
  }
  const patience = { queueTimeoutMs: PATIENT_MS, connectTimeoutMs: PATIENT_MS }
  const database = await openPostgres({ url: own, onIdleFault, ...patience })
  return {
    ...database,
    close: async () => {
      await database.close()
      await administer(url, `DROP SCHEMA ${schema} CASCADE`)
    },
  }
}

async function makeSchema(url: string): Promise<{ readonly schema: string; readonly url: string }> {
  const schema = `test_${randomBytes(8).toString('hex')}`
  await administer(url, `CREATE SCHEMA ${schema}`)
  const own = new URL(url)
  own.searchParams.set('options', `-c search_path=${schema}`)
  return { schema, url: own.href }
}

async function administer(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
