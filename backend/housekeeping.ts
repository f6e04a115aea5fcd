import type { Database, Queryable } from './database/database.ts'
import { FORGOTTEN_AFTER_MS, KNOWN_FOR_MS } from './identity/sign-in-throttle.ts'
import { KEPT_MS } from './money/idempotency.ts'

/** Any number that no other advisory lock in the database has. */
const SWEEP_LOCK = 7_310_516

/**
 * What time it is by the clock that is behind, ours or the database's. A backend whose clock is ahead must not delete what
 * the others still need.
 */
export async function earlierTime(database: Queryable, now: Date): Promise<Date> {
  const [row] = await database.query<{ at: Date }>('SELECT least($1::timestamptz, now()) AS at', [now])
  return row?.at ?? now
}

/**
 * Deletes what has expired: kept responses, refresh tokens, sessions that no token continues, what the authorization
 * server made, sign-ins that are forgotten, and keys that nothing can be verified with any more. Of several backends on
 * one database one does it at a time. @returns false: another one is at it, and nothing was done here
 */
export function sweep(database: Database, now: Date): Promise<boolean> {
  return database.transaction(async (transaction) => {
    // Reads whole tables: serialisable, it would make transfers and sign-ins that run beside it start again.
    await transaction.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
    // By schema too, because a database may hold several installations.
    const [lock] = await transaction.query<{ taken: boolean }>(
      'SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema())) AS taken',
      [SWEEP_LOCK],
    )
    if (lock?.taken !== true) return false
    await deleteExpired(transaction, now)
    return true
  })
}

async function deleteExpired(transaction: Queryable, now: Date): Promise<void> {
  await transaction.query('DELETE FROM idempotency_keys WHERE created_at <= $1', [
    new Date(now.getTime() - KEPT_MS),
  ])
  // Exchanged tokens too stay until they expire: until then their reuse must be noticed.
  await transaction.query('DELETE FROM refresh_tokens WHERE expires_at <= $1', [now])
  await transaction.query(
    'DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE session_id = sessions.id)',
  )
  await transaction.query('DELETE FROM oauth_artifacts WHERE expires_at <= $1', [now])
  await transaction.query(
    `DELETE FROM sign_in_attempts
      WHERE last_at <= $1 AND (succeeded_at IS NULL OR succeeded_at <= $2)`,
    [new Date(now.getTime() - FORGOTTEN_AFTER_MS), new Date(now.getTime() - KNOWN_FOR_MS)],
  )
  await transaction.query('DELETE FROM signing_keys WHERE published_until <= $1', [now])
}
