import type { Database } from './database/database.ts'
import { FORGOTTEN_AFTER_MS, KNOWN_FOR_MS } from './identity/sign-in-throttle.ts'
import { KEPT_MS } from './money/idempotency.ts'

/**
 * Deletes what has expired: kept answers, refresh tokens, sessions that no token continues, what the authorization
 * server made, sign-ins that are forgotten, and keys that nothing can be verified with any more.
 */
export async function sweep(database: Database, now: Date): Promise<void> {
  await database.query('DELETE FROM idempotency_keys WHERE created_at <= $1', [
    new Date(now.getTime() - KEPT_MS),
  ])
  // Exchanged tokens too stay until they expire: until then their reuse must be noticed.
  await database.query('DELETE FROM refresh_tokens WHERE expires_at <= $1', [now])
  await database.query(
    'DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE session_id = sessions.id)',
  )
  await database.query('DELETE FROM oauth_artifacts WHERE expires_at <= $1', [now])
  await database.query(
    `DELETE FROM sign_in_attempts
      WHERE last_at <= $1 AND (succeeded_at IS NULL OR succeeded_at <= $2)`,
    [new Date(now.getTime() - FORGOTTEN_AFTER_MS), new Date(now.getTime() - KNOWN_FOR_MS)],
  )
  await database.query('DELETE FROM signing_keys WHERE published_until <= $1', [now])
}
