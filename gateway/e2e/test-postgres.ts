import { randomBytes } from 'node:crypto'
import { Client } from 'pg'

const SERVER = process.env.TEST_DATABASE_URL

/** Why tests are skipped; false if TEST_DATABASE_URL is set. */
export const NO_POSTGRES =
  SERVER === undefined
    ? 'NOT TESTED: TEST_DATABASE_URL names no PostgreSQL server, such as postgres://postgres@127.0.0.1:5432/postgres (apt-get install postgresql)'
    : false

/** An empty schema on the PostgreSQL server TEST_DATABASE_URL. */
export interface TestPostgres {
  /** For DATABASE_URL. */
  readonly url: string
  query<R>(sql: string, values?: readonly unknown[]): Promise<R[]>
  close(): Promise<void>
}

export async function createTestPostgres(): Promise<TestPostgres> {
  const schema = `test_${randomBytes(8).toString('hex')}`
  const url = new URL(SERVER as string)
  url.searchParams.set('options', `-c search_path=${schema}`)
  const client = new Client({ connectionString: url.href })
  await client.connect()
  await client.query(`CREATE SCHEMA ${schema}`)
  return {
    url: url.href,
    query: async (sql, values = []) => (await client.query(sql, [...values])).rows,
    close: async () => {
      await client.query(`DROP SCHEMA ${schema} CASCADE`)
      await client.end()
    },
  }
}
