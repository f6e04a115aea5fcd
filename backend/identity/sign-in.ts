import type { Database } from '../database/database.ts'
import { admitGuess, type Guess, guessAt, noteRight, takeBackGuess } from './guess.ts'
import { verifyPassword } from './passwords.ts'
import { type Credentials, emailKey, findCredentials, findOwnCredentials } from './user-credentials.ts'

export interface SignInAttempt {
  readonly email: string
  readonly password: string
  /** From where it comes (attempt-origin.ts). */
  readonly origin: string
  /** A browser in which this address signed in before: it has a throttle of its own (known-browser.ts). */
  readonly knownBrowser?: string | undefined
}

/** `wrong`: the address, the password, or both. `throttled`: nothing was checked; try again later. */
export type SignIn =
  | { readonly outcome: 'signed_in'; readonly user: Credentials & { readonly passwordHash: string } }
  | { readonly outcome: 'wrong' }
  | { readonly outcome: 'throttled'; readonly retryAfterSeconds: number }

/**
 * Checks an e-mail address and a password, for both POST /api/login and the sign-in page, so that guesses are counted
 * together. Neither the result nor the time reveals whether the user exists.
 * Throws the `busy` problem under load.
 */
export async function signIn(database: Database, attempt: SignInAttempt, now: Date): Promise<SignIn> {
  const user = await findCredentials(database, attempt.email)
  const guess = await guessAt(database, { ...attempt, account: emailKey(attempt.email) }, now)
  const check = await checkGuess(
    database,
    { guess, password: attempt.password, hash: user?.passwordHash },
    now,
  )
  if (check.outcome !== 'right' || user === undefined)
    return check.outcome === 'throttled' ? check : { outcome: 'wrong' }
  return { outcome: 'signed_in', user: { ...user, passwordHash: check.passwordHash } }
}

/** The result of checking the present password of a signed-in user; `proved` has the hash. */
export type PasswordProof =
  | { readonly outcome: 'proved'; readonly passwordHash: string }
  | Exclude<SignIn, { readonly outcome: 'signed_in' }>

/** Checks the present password of a user who is signed in. Guesses are counted with those at sign-in. */
export async function provePassword(
  database: Database,
  attempt: { readonly userId: string; readonly password: string; readonly origin: string },
  now: Date,
): Promise<PasswordProof> {
  const user = await findOwnCredentials(database, attempt.userId)
  if (user === undefined) return { outcome: 'wrong' }
  const guess = await guessAt(database, { ...attempt, account: user.emailKey }, now)
  const check = await checkGuess(
    database,
    { guess, password: attempt.password, hash: user.passwordHash },
    now,
  )
  return check.outcome === 'right' ? { outcome: 'proved', passwordHash: check.passwordHash } : check
}

type Check =
  | { readonly outcome: 'right'; readonly passwordHash: string }
  | Exclude<SignIn, { readonly outcome: 'signed_in' }>

/** Counts one guess and checks it; one that could not be checked is not counted. Without a hash none is right. */
async function checkGuess(
  database: Database,
  {
    guess,
    password,
    hash,
  }: { readonly guess: Guess; readonly password: string; readonly hash: string | undefined },
  now: Date,
): Promise<Check> {
  const admission = await admitGuess(database, guess, now)
  if (admission.outcome === 'wait')
    return { outcome: 'throttled', retryAfterSeconds: admission.retryAfterSeconds }
  let matches: boolean
  try {
    matches = await verifyPassword(password, hash)
  } catch (unchecked) {
    await takeBackGuess(database, guess, now)
    throw unchecked
  }
  if (!matches || hash === undefined) return { outcome: 'wrong' }
  await noteRight(database, guess, now)
  return { outcome: 'right', passwordHash: hash }
}
