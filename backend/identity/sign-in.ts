import type { Database } from '../database/database.ts'
import { admitGuess, guessAt, noteRight } from './guess.ts'
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
  | { readonly outcome: 'signed_in'; readonly user: Credentials }
  | { readonly outcome: 'wrong' }
  | { readonly outcome: 'throttled'; readonly retryAfterSeconds: number }

/**
 * Checks an e-mail address and a password, for both POST /api/login and the sign-in page, so that guesses are counted
 * together. Neither the result nor the time reveals whether the user exists.
 * Throws the `busy` problem under load.
 */
export async function signIn(database: Database, attempt: SignInAttempt, now: Date): Promise<SignIn> {
  const guess = await guessAt(database, { ...attempt, account: emailKey(attempt.email) }, now)
  const admission = await admitGuess(database, guess, now)
  if (admission.outcome === 'wait')
    return { outcome: 'throttled', retryAfterSeconds: admission.retryAfterSeconds }
  const user = await findCredentials(database, attempt.email)
  const matches = await verifyPassword(attempt.password, user?.passwordHash)
  if (user === undefined || !matches) return { outcome: 'wrong' }
  await noteRight(database, guess, now)
  return { outcome: 'signed_in', user }
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
  const admission = await admitGuess(database, guess, now)
  if (admission.outcome === 'wait')
    return { outcome: 'throttled', retryAfterSeconds: admission.retryAfterSeconds }
  const matches = await verifyPassword(attempt.password, user.passwordHash)
  if (!matches || user.passwordHash === undefined) return { outcome: 'wrong' }
  await noteRight(database, guess, now)
  return { outcome: 'proved', passwordHash: user.passwordHash }
}
