import type { Queryable } from '../database/database.ts'
import type { Role } from './session-tokens.ts'

/** The form in which e-mail addresses are compared: in lower case. */
export function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** The part of a user that a password is checked against; `passwordHash` is null for a user without one. */
export type Credentials = {
  readonly id: string
  readonly role: Role
  readonly passwordHash: string | null
  /** The account under which guesses are counted, as at sign-in. */
  readonly emailKey: string
}

/** The user with this id or this key of an address; `undefined` when there is none or it was deleted. */
export async function findCredentials(
  database: Queryable,
  by: 'id' | 'email_key',
  value: string,
): Promise<Credentials | undefined> {
  const [user] = await database.query<Credentials>(
    `SELECT id, role, password_hash AS "passwordHash", email_key AS "emailKey"
       FROM users WHERE ${by} = $1 AND deleted_at IS NULL`,
    [value],
  )
  return user
}
