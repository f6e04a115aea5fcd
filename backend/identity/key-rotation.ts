import type { Database, Queryable } from '../database/database.ts'
import { newKey, storeKey } from './keys.ts'
import { ACCESS_TOKEN_SECONDS } from './session-tokens.ts'

/**
 * A new key is published for this long before it signs. The gateway reads the key set every 5 minutes; this is
 * twice as long, for one failed reading and for clocks that differ by minutes.
 */
export const PUBLISHED_AHEAD_MS = 10 * 60 * 1000

/** An old key stays published until the last token it signed has expired, and 5 minutes more for clocks that differ. */
export const PUBLISHED_AFTER_MS = (ACCESS_TOKEN_SECONDS + 300) * 1000

/** Any number that no other advisory lock in the database has. */
const ROTATION_LOCK = 7_310_515

/** `pending`: a new key is published already and does not sign yet. `early`: the newest is younger than `olderThanMs`. */
export type Rotation =
  | { readonly outcome: 'started' | 'pending'; readonly kid: string; readonly signsFrom: Date }
  | { readonly outcome: 'early' }

/**
 * Starts a rotation: a new key is published at once, signs after {@link PUBLISHED_AHEAD_MS}, and the one it follows is
 * dropped {@link PUBLISHED_AFTER_MS} later. Every process follows the times stored here, even when this one
 * dies. Of several that start at the same time one succeeds. With `olderThanMs` it starts only when the newest key is older
 * than that.
 */
export async function rotateSigningKeys(
  database: Database,
  { now, olderThanMs }: { readonly now: Date; readonly olderThanMs?: number },
): Promise<Rotation> {
  if (olderThanMs !== undefined && !(await isDue(database, { now, olderThanMs }))) return { outcome: 'early' }
  const candidate = newKey()
  return database.transaction(async (transaction): Promise<Rotation> => {
    await transaction.query('SELECT pg_advisory_xact_lock($1)', [ROTATION_LOCK])
    const [newest] = await transaction.query<{ kid: string; signs_from: Date }>(
      'SELECT kid, signs_from FROM signing_keys ORDER BY signs_from DESC, kid LIMIT 1',
    )
    if (newest !== undefined && newest.signs_from > now) {
      return { outcome: 'pending', kid: newest.kid, signsFrom: newest.signs_from }
    }
    // Asked again under the lock: another process may have been first.
    if (olderThanMs !== undefined && !(await isDue(transaction, { now, olderThanMs }))) {
      return { outcome: 'early' }
    }
    const signsFrom = new Date(now.getTime() + PUBLISHED_AHEAD_MS)
    await transaction.query(
      'UPDATE signing_keys SET signs_until = $1, published_until = $2 WHERE signs_until IS NULL',
      [signsFrom, new Date(signsFrom.getTime() + PUBLISHED_AFTER_MS)],
    )
    await storeKey(transaction, candidate, { now, signsFrom })
    return { outcome: 'started', kid: candidate.kid, signsFrom }
  })
}

async function isDue(
  database: Queryable,
  { now, olderThanMs }: { readonly now: Date; readonly olderThanMs: number },
): Promise<boolean> {
  const younger = await database.query(
    'SELECT 1 AS younger FROM signing_keys WHERE created_at > $1 LIMIT 1',
    [new Date(now.getTime() - olderThanMs)],
  )
  return younger.length === 0
}
