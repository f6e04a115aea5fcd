import type { Database } from '../database/database.ts'
import { verifyPassword } from './passwords.ts'
import {
  type Admission,
  admitAttempt,
  admitStranger,
  isKnown,
  noteSuccess,
  strangersWait,
  takeBackAttempt,
  takeBackStranger,
} from './sign-in-throttle.ts'
import { type Credentials, emailKey, findCredentials } from './user-credentials.ts'

interface PasswordAttempt {
  readonly password: string
  /** See attempt-origin.ts. */
  readonly origin: string
  /** A browser where this e-mail address signed in before; it has its own throttle (known-browser.ts). */
  readonly knownBrowser?: string | undefined
}

/** `throttled`: nothing was checked. */
type SignIn =
  | { readonly outcome: 'signed_in'; readonly user: Credentials & { readonly passwordHash: string } }
  | { readonly outcome: 'wrong' }
  | { readonly outcome: 'throttled'; readonly retryAfterSeconds: number }

/**
 * Checks an e-mail address and a password. Neither the result nor the time reveals whether the user exists. Throws the `busy`
 * problem under load.
 */
export async function signIn(
  database: Database,
  { email, ...attempt }: PasswordAttempt & { readonly email: string },
  now: Date,
): Promise<SignIn> {
  const account = emailKey(email)
  const user = await findCredentials(database, 'email_key', account)
  return checkPassword(database, { ...attempt, account, user }, now)
}

/** Checks a signed-in user's password. Guesses are counted with those at sign-in. */
export async function provePassword(
  database: Database,
  { userId, ...attempt }: PasswordAttempt & { readonly userId: string },
  now: Date,
): Promise<SignIn> {
  const user = await findCredentials(database, 'id', userId)
  if (user === undefined) return { outcome: 'wrong' }
  return checkPassword(database, { ...attempt, account: user.emailKey, user }, now)
}

/** Counts and checks one guess. A guess that could not be checked is not counted. */
async function checkPassword(
  database: Database,
  attempt: PasswordAttempt & { readonly account: string; readonly user: Credentials | undefined },
  now: Date,
): Promise<SignIn> {
  const { user, password } = attempt
  const guess = await guessAt(database, attempt, now)
  const admission = await admitGuess(database, guess, now)
  if (admission.outcome === 'wait')
    return { outcome: 'throttled', retryAfterSeconds: admission.retryAfterSeconds }
  const passwordHash = user?.passwordHash ?? undefined
  const matches = await verifyPassword(password, passwordHash).catch(async (unchecked: unknown) => {
    await takeBackAttempt(database, guess.key, now)
    if (guess.stranger) await takeBackStranger(database, guess.account)
    throw unchecked
  })
  if (!matches || user === undefined || passwordHash === undefined) return { outcome: 'wrong' }
  await noteRight(database, guess, now)
  return { outcome: 'signed_in', user: { ...user, passwordHash } }
}

interface Guess {
  readonly account: string
  readonly key: string
  /** Nobody has recently signed in to the account from this origin. */
  readonly stranger: boolean
}

/** Describes a guess; counts nothing yet. */
export async function guessAt(
  database: Database,
  attempt: Pick<PasswordAttempt, 'origin' | 'knownBrowser'> & { readonly account: string },
  now: Date,
): Promise<Guess> {
  const { account, origin, knownBrowser } = attempt
  if (knownBrowser !== undefined)
    return { account, key: `browser\n${knownBrowser}\n${account}`, stranger: false }
  const key = `origin\n${origin}\n${account}`
  return { account, key, stranger: !(await isKnown(database, key, now)) }
}

/**
 * Counts by account and origin, so that guessing delays only that origin. All strangers are also counted together; when they have
 * to wait, nothing is counted.
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

export async function noteRight(
  database: Database,
  { account, key, stranger }: Guess,
  now: Date,
): Promise<void> {
  await noteSuccess(database, key, now)
  if (stranger) await takeBackStranger(database, account)
}
