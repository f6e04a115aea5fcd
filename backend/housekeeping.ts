import type { Database } from './database/database.ts'
import { KEPT_MS } from './idempotency.ts'

/** Deletes what has expired: kept answers, refresh tokens, and sessions that no token continues. */
export async function sweep(database: Database, now: Date): Promise<void> {
  await database.query('DELETE FROM idempotency_keys WHERE created_at <= $1', [
    new Date(now.getTime() - KEPT_MS),
  ])
  // Exchanged tokens too stay until they expire: until then their reuse must be noticed.
  await database.query('DELETE FROM refresh_tokens WHERE expires_at <= $1', [now])
  await database.query(
    'DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE session_id = sessions.id)',
  )
}
