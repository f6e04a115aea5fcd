import type { Database } from './database.ts'
import { initialSchema } from './schema/0001-initial.ts'
import { oauthSchema } from './schema/0002-oauth.ts'
import { signInAndGrantsSchema } from './schema/0003-sign-in-and-grants.ts'
import { retentionSchema } from './schema/0004-retention.ts'

/** Any number that no other advisory lock here has. */
const SCHEMA_LOCK = 7_310_514

/** Steps are only added at the end; a released one never changes. */
const MIGRATIONS = [
  { name: '0001-initial', sql: initialSchema },
  { name: '0002-oauth', sql: oauthSchema },
  { name: '0003-sign-in-and-grants', sql: signInAndGrantsSchema },
  { name: '0004-retention', sql: retentionSchema },
]

/**
 * Brings the schema to the newest version, one transaction a step. Returns the names of the steps that ran. Throws when
 * the database has an unknown step, because an older program must not write to a newer schema.
 */
export async function migrate(database: Database): Promise<string[]> {
  await database.transaction(async (transaction) => {
    // IF NOT EXISTS alone fails when two programs create the table together.
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [SCHEMA_LOCK])
    await transaction.script(
      'CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    )
  })
  const recorded = await database.query<{ name: string }>('SELECT name FROM migrations ORDER BY name')
  const unknown = recorded
    .map(({ name }) => name)
    .filter((name) => MIGRATIONS.every((step) => step.name !== name))
  if (unknown.length > 0)
    throw new Error(`the database was migrated by a newer version: ${unknown.join(', ')} is unknown here`)
  const applied: string[] = []
  for (const { name, sql } of MIGRATIONS) {
    const isNew = await database.transaction(async (transaction) => {
      // The row comes first. If two programs start together, the second one waits here, then finds the step done.
      const inserted = await transaction.query(
        'INSERT INTO migrations (name) VALUES ($1) ON CONFLICT DO NOTHING RETURNING name',
        [name],
      )
      if (inserted.length === 0) return false
      await transaction.script(sql)
      return true
    })
    if (isNew) applied.push(name)
  }
  return applied
}
