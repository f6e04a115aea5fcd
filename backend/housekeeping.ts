import type { Database, Queryable } from './database/database.ts'
import { FORGOTTEN_AFTER_MS, KNOWN_FOR_MS } from './identity/sign-in-throttle.ts'
import { KEPT_MS } from './money/idempotency.ts'
import { VERIFICATIONS_KEPT_MS } from './resources/verify.ts'

const SWEEP_LOCK = 7_310_516

export const DAY_MS = 24 * 60 * 60 * 1000

export const STEP_ROWS = 1_000
/** The most webhooks that one statement deletes. Each has up to 1 MiB. */
const STEP_WEBHOOKS = 50

/** The earlier of our time and the database's, so that a fast clock deletes nothing that is still in force. */
export async function earlierTime(database: Queryable, now: Date): Promise<Date> {
  const [row] = await database.query<{ at: Date }>('SELECT least($1::timestamptz, now()) AS at', [now])
  return row?.at ?? now
}

/** A table, the condition of its deletable rows, the condition's parameters, and the most rows of a step. */
type Expired = readonly [table: string, where: string, values: readonly Date[], stepRows?: number]

function expiredAt(now: Date, webhooksKeptMs: number): readonly Expired[] {
  const before = (ms: number) => new Date(now.getTime() - ms)
  return [
    ['idempotency_keys', 'created_at <= $1', [before(KEPT_MS)]],
    // Exchanged tokens stay too: their reuse must be noticed.
    ['refresh_tokens', 'expires_at <= $1', [now]],
    ['sessions', 'NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE session_id = sessions.id)', []],
    ['oauth_artifacts', 'expires_at <= $1', [now]],
    [
      'sign_in_attempts',
      'last_at <= $1 AND (succeeded_at IS NULL OR succeeded_at <= $2)',
      [before(FORGOTTEN_AFTER_MS), before(KNOWN_FOR_MS)],
    ],
    ['webhooks', 'received_at <= $1', [before(webhooksKeptMs)], STEP_WEBHOOKS],
    [
      'verifications',
      'user_id IN (SELECT id FROM users WHERE deleted_at <= $1)',
      [before(VERIFICATIONS_KEPT_MS)],
    ],
    [
      'verifications',
      // The last successful verification of an existing user stays: the business relies on it.
      `created_at <= $1 AND (status <> 'verified' OR EXISTS (
        SELECT 1 FROM verifications AS later WHERE later.user_id = verifications.user_id AND later.status = 'verified'
           AND (later.created_at, later.id) > (verifications.created_at, verifications.id)))`,
      [before(VERIFICATIONS_KEPT_MS)],
    ],
    ['signing_keys', 'published_until <= $1', [now]],
  ]
}

/** Deletes expired rows in small steps, in one backend at a time. Returns false when another backend does it. */
export async function sweep(database: Database, now: Date, webhooksKeptMs = 30 * DAY_MS): Promise<boolean> {
  for (const expired of expiredAt(now, webhooksKeptMs)) {
    let deleted: number | undefined
    do {
      deleted = await deleteSome(database, expired)
      if (deleted === undefined) return false
    } while (deleted > 0)
  }
  return true
}

/** Returns how many rows were deleted; `undefined` while another backend deletes. */
function deleteSome(
  database: Database,
  [table, where, values, stepRows = STEP_ROWS]: Expired,
): Promise<number | undefined> {
  return database.transaction(async (transaction) => {
    // SERIALIZABLE would make concurrent transactions start again, because the statement reads whole tables.
    await transaction.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
    // One lock per schema: a database may hold several installations.
    const [lock] = await transaction.query<{ taken: boolean }>(
      'SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema())) AS taken',
      [SWEEP_LOCK],
    )
    if (lock?.taken !== true) return undefined
    const [gone] = await transaction.query<{ rows: number }>(
      `WITH gone AS (
         DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${where} LIMIT ${stepRows})) RETURNING 1
       ) SELECT count(*)::int AS rows FROM gone`,
      values,
    )
    return gone?.rows
  })
}
