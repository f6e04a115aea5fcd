import { createHash } from 'node:crypto'
import type { Database } from '../database/database.ts'
import type { Admission } from './sign-in-throttle.ts'

/** So many guesses at one account may come at once from all origins together that are not known for it … */
const BURST = 100

/** … and after that one more each five minutes. */
const PER_GUESS_SECONDS = 5 * 60

/**
 * Bounds what many strangers together guess at one account, by the generic cell rate algorithm: `next_at` may lie at most
 * {@link BURST} guesses ahead. A single origin is limited more strictly (sign-in-throttle.ts), so it alone can never use this up
 * and lock others out.
 */
export async function admitStranger(database: Database, account: string, now: Date): Promise<Admission> {
  const [admitted] = await database.query(
    `INSERT INTO sign_in_attempts AS attempts (key, failures, last_at, next_at)
     VALUES ($1, 1, $2, $2::timestamptz + make_interval(secs => $3::float8))
     ON CONFLICT (key) DO UPDATE
       SET failures = attempts.failures + 1, last_at = $2,
           next_at = greatest(attempts.next_at, $2) + make_interval(secs => $3::float8)
     WHERE attempts.next_at <= $4
     RETURNING failures`,
    [keyOf(account), now, PER_GUESS_SECONDS, latestDebt(now)],
  )
  return admitted === undefined ? strangersWait(database, account, now) : { outcome: 'go' }
}

/** Whether strangers have to wait, without counting one. */
export async function strangersWait(database: Database, account: string, now: Date): Promise<Admission> {
  const [row] = await database.query<{ next_at: Date }>(
    'SELECT next_at FROM sign_in_attempts WHERE key = $1',
    [keyOf(account)],
  )
  const waitMs = (row?.next_at.getTime() ?? 0) - latestDebt(now).getTime()
  return waitMs <= 0 ? { outcome: 'go' } : { outcome: 'wait', retryAfterSeconds: Math.ceil(waitMs / 1000) }
}

/** Takes a guess back, because the password was right. */
export async function takeBackStranger(database: Database, account: string): Promise<void> {
  await database.query(
    'UPDATE sign_in_attempts SET next_at = next_at - make_interval(secs => $2::float8) WHERE key = $1',
    [keyOf(account), PER_GUESS_SECONDS],
  )
}

function latestDebt(now: Date): Date {
  return new Date(now.getTime() + (BURST - 1) * PER_GUESS_SECONDS * 1000)
}

function keyOf(account: string): string {
  return createHash('sha256').update(`strangers\n${account}`).digest('hex')
}
