import type { Database } from '../database/database.ts'
import { type Admission, admitAttempt, isKnown, noteSuccess, takeBackAttempt } from './sign-in-throttle.ts'
import { admitStranger, strangersWait, takeBackStranger } from './stranger-throttle.ts'

/** Where a password is tried from, and for which account. */
export interface GuessSource {
  readonly account: string
  /** attempt-origin.ts. */
  readonly origin: string
  /** A browser in which this account signed in before: it has a throttle of its own (known-browser.ts). */
  readonly knownBrowser?: string | undefined
}

/** How a guess at a password is counted. */
export interface Guess {
  readonly account: string
  /** The account and where the guess comes from. */
  readonly key: string
  /** Nobody has recently signed in to this account from there. */
  readonly stranger: boolean
}

/** A guess before it is made; nothing is counted yet. */
export async function guessAt(
  database: Database,
  { account, origin, knownBrowser }: GuessSource,
  now: Date,
): Promise<Guess> {
  if (knownBrowser !== undefined)
    return { account, key: `browser\n${knownBrowser}\n${account}`, stranger: false }
  const key = `origin\n${origin}\n${account}`
  return { account, key, stranger: !(await isKnown(database, key, now)) }
}

/**
 * Counts by account and origin, so that guessing delays only those who share the origin. Guesses from origins that are not
 * known for the account are bounded together as well. When strangers have to wait, nothing is counted at the origin, so a
 * repeated attempt makes the wait no longer.
 */
export async function admitGuess(
  database: Database,
  { account, key, stranger }: Guess,
  now: Date,
): Promise<Admission> {
  if (!stranger) return admitAttempt(database, key, now)
  const all = await strangersWait(database, account, now)
  if (all.outcome === 'wait') return all
  const admission = await admitAttempt(database, key, now)
  return admission.outcome === 'wait' ? admission : admitStranger(database, account, now)
}

/** The password was right. */
export async function noteRight(
  database: Database,
  { account, key, stranger }: Guess,
  now: Date,
): Promise<void> {
  await noteSuccess(database, key, now)
  if (stranger) await takeBackStranger(database, account)
}

/** The password was not checked after all. `now` is that of the admission. */
export async function takeBackGuess(
  database: Database,
  { account, key, stranger }: Guess,
  now: Date,
): Promise<void> {
  await takeBackAttempt(database, key, now)
  if (stranger) await takeBackStranger(database, account)
}
