import { hash } from 'node:crypto'
import type { Database } from '../database/database.ts'

/** Attempts in a row that need no wait. */
const FREE_ATTEMPTS = 5

const FIRST_DELAY_SECONDS = 1
const MAX_DELAY_SECONDS = 15 * 60

/** Failures are forgotten this long after the last one. */
export const FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1000

/** A sign-in makes its origin known to the account for this long. */
export const KNOWN_FOR_MS = 30 * 24 * 60 * 60 * 1000

/** `wait`: no attempt before `retryAfterSeconds` have passed. */
export type Admission =
  | { readonly outcome: 'go' }
  | { readonly outcome: 'wait'; readonly retryAfterSeconds: number }

/**
 * Admits one attempt. It counts as failed until {@link noteSuccess}, so that simultaneous attempts do not all pass.
 * After {@link FREE_ATTEMPTS} each failure doubles the next wait, from 1 s to 15 min. A refused attempt does not count.
 *
 * @param key names account and origin; only its SHA-256 is stored
 */
export async function admitAttempt(database: Database, key: string, now: Date): Promise<Admission> {
  const [admitted] = await database.query(
    `INSERT INTO sign_in_attempts AS attempts (key, failures, last_at, next_at) VALUES ($1, 1, $2, 'epoch')
     ON CONFLICT (key) DO UPDATE
       SET failures = CASE WHEN ${FORGOTTEN} THEN 1 ELSE attempts.failures + 1 END,
           last_at = $2,
           next_at = CASE
             WHEN ${FORGOTTEN} OR attempts.failures + 1 < $4 THEN 'epoch'::timestamptz
             ELSE $2::timestamptz + make_interval(secs =>
               least($6::float8, $5::float8 * power(2, least(attempts.failures + 1 - $4, 30))))
           END
     WHERE attempts.next_at <= $2 OR ${FORGOTTEN}
     RETURNING failures`,
    [
      hashed(key),
      now,
      new Date(now.getTime() - FORGOTTEN_AFTER_MS),
      FREE_ATTEMPTS,
      FIRST_DELAY_SECONDS,
      MAX_DELAY_SECONDS,
      latestPast(now),
    ],
  )
  if (admitted !== undefined) return { outcome: 'go' }
  const [row] = await database.query<{ next_at: Date }>(
    'SELECT next_at FROM sign_in_attempts WHERE key = $1',
    [hashed(key)],
  )
  const waitMs = (row?.next_at.getTime() ?? 0) - now.getTime()
  return { outcome: 'wait', retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) }
}

/** SQL condition: the attempts no longer count, because their day is over or the clock was set back since then. */
const FORGOTTEN = '(attempts.last_at <= $3 OR attempts.last_at > $7)'

/** The latest time that another backend can have noted: clocks differ by less than `MAX_DELAY_SECONDS`. */
function latestPast(now: Date): Date {
  return new Date(now.getTime() + MAX_DELAY_SECONDS * 1000)
}

/** Makes the next attempt free and the origin known for the account. */
export async function noteSuccess(database: Database, key: string, now: Date): Promise<void> {
  await database.query(
    "UPDATE sign_in_attempts SET failures = 0, next_at = 'epoch', succeeded_at = $2 WHERE key = $1",
    [hashed(key), now],
  )
}

/** Takes back the attempt admitted at `now`. The wait stays when a later attempt was admitted meanwhile. */
export async function takeBackAttempt(database: Database, key: string, now: Date): Promise<void> {
  await database.query(
    `UPDATE sign_in_attempts
        SET failures = greatest(failures - 1, 0),
            next_at = CASE WHEN last_at = $2 THEN 'epoch'::timestamptz ELSE next_at END
      WHERE key = $1`,
    [hashed(key), now],
  )
}

export async function isKnown(database: Database, key: string, now: Date): Promise<boolean> {
  const known = await database.query(
    'SELECT 1 AS one FROM sign_in_attempts WHERE key = $1 AND succeeded_at > $2',
    [hashed(key), new Date(now.getTime() - KNOWN_FOR_MS)],
  )
  return known.length > 0
}

/** The most guesses at one account in a burst, over all unknown origins. */
const BURST = 100
/** The time per guess after the burst. */
const PER_GUESS_SECONDS = 5 * 60

/**
 * Bounds guesses of many strangers at one account by the generic cell rate algorithm: `next_at` may lie at most {@link BURST}
 * guesses ahead. A single origin is limited more strictly, so it cannot lock others out.
 */
export async function admitStranger(database: Database, account: string, now: Date): Promise<Admission> {
  const [admitted] = await database.query(
    `INSERT INTO sign_in_attempts AS attempts (key, failures, last_at, next_at)
     VALUES ($1, 1, $2, $2::timestamptz + make_interval(secs => $3::float8))
     ON CONFLICT (key) DO UPDATE
       SET failures = attempts.failures + 1, last_at = $2,
           next_at = greatest(CASE WHEN attempts.last_at <= $5 THEN attempts.next_at END, $2) + make_interval(secs => $3::float8)
     WHERE attempts.next_at <= $4 OR attempts.last_at > $5
     RETURNING failures`,
    [hashed(`strangers\n${account}`), now, PER_GUESS_SECONDS, latestDebt(now), latestPast(now)],
  )
  return admitted === undefined ? strangersWait(database, account, now) : { outcome: 'go' }
}

/** The answer that a stranger would get now; counts nothing. */
export async function strangersWait(database: Database, account: string, now: Date): Promise<Admission> {
  const [row] = await database.query<{ next_at: Date }>(
    'SELECT next_at FROM sign_in_attempts WHERE key = $1 AND last_at <= $2',
    [hashed(`strangers\n${account}`), latestPast(now)],
  )
  const waitMs = (row?.next_at.getTime() ?? 0) - latestDebt(now).getTime()
  return waitMs <= 0 ? { outcome: 'go' } : { outcome: 'wait', retryAfterSeconds: Math.ceil(waitMs / 1000) }
}

export async function takeBackStranger(database: Database, account: string): Promise<void> {
  await database.query(
    'UPDATE sign_in_attempts SET next_at = next_at - make_interval(secs => $2::float8) WHERE key = $1',
    [hashed(`strangers\n${account}`), PER_GUESS_SECONDS],
  )
}

function latestDebt(now: Date): Date {
  return new Date(now.getTime() + (BURST - 1) * PER_GUESS_SECONDS * 1000)
}

function hashed(key: string): string {
  return hash('sha256', key, 'hex')
}
