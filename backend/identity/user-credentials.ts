import type { Queryable } from '../database/database.ts'
import type { Role } from './session-tokens.ts'

/** The form in which addresses are compared, without letter case: before the @ it matters in theory only. */
export function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** What a sign-in is checked against; `passwordHash` is undefined for a user without a password. */
export interface Credentials {
  readonly id: string
  readonly role: Role
  readonly passwordHash: string | undefined
}

export async function findCredentials(database: Queryable, email: string): Promise<Credentials | undefined> {
  const [row] = await database.query<{ id: string; role: Role; password_hash: string | null }>(
    'SELECT id, role, password_hash FROM users WHERE email_key = $1',
    [emailKey(email)],
  )
  return row && { id: row.id, role: row.role, passwordHash: row.password_hash ?? undefined }
}

/** What the present password of a user is checked against; `emailKey` names the sign-ins it is counted with. */
export async function findOwnCredentials(
  database: Queryable,
  id: string,
): Promise<(Credentials & { readonly emailKey: string }) | undefined> {
  const [row] = await database.query<{ role: Role; password_hash: string | null; email_key: string }>(
    'SELECT role, password_hash, email_key FROM users WHERE id = $1 AND deleted_at IS NULL',
    [id],
  )
  return row && { id, role: row.role, passwordHash: row.password_hash ?? undefined, emailKey: row.email_key }
}
