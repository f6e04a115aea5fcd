import type { Queryable } from '../database/database.ts'
import type { Role } from './session-tokens.ts'

export function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** `passwordHash` is null for a user without a password. */
export type Credentials = {
  readonly id: string
  readonly role: Role
  readonly passwordHash: string | null
  /** The account under which guesses are counted. */
  readonly emailKey: string
}

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
