import { hash } from 'node:crypto'
import type { Account } from 'oidc-provider'
import type { Queryable, Row } from '../../database/database.ts'
import type { Role } from '../session-tokens.ts'

interface UserDetails {
  readonly role: Role
  readonly name: string
  readonly email: string
}

export type UserAccount = Account & UserDetails

/** Returns `undefined` once the user is deleted, which ends all grants of the user. */
export async function findAccount(database: Queryable, id: string): Promise<UserAccount | undefined> {
  const [user] = await database.query<UserDetails & Row>(
    'SELECT role, name, email FROM users WHERE id = $1 AND deleted_at IS NULL',
    [id],
  )
  return user && { ...user, accountId: id, claims: () => ({ sub: id }) }
}

const PREFIX = 'pwd:'

/**
 * The `amr` (RFC 8176) that oidc-provider keeps for a sign-in. Its second entry stands for the password, so that older
 * sign-ins do not count after a change. No token contains the `amr`.
 */
export function methodsOf(passwordHash: string): string[] {
  return ['pwd', PREFIX + digest(passwordHash)]
}

/** True when the user signed in with another password, or has none now. */
export function isOfOldPassword(methods: readonly string[], passwordHash: string | null): boolean {
  return passwordHash === null || !methods.includes(PREFIX + digest(passwordHash))
}

function digest(passwordHash: string): string {
  return hash('sha256', passwordHash, 'base64url').slice(0, 22)
}
