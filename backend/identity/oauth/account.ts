import type { Account } from 'oidc-provider'
import type { Queryable } from '../../database/database.ts'
import type { Role } from '../session-tokens.ts'

/** A user as the authorization server knows it; tokens hold only the id. */
export interface UserAccount extends Account {
  readonly role: Role
  readonly name: string
  readonly email: string
}

/** The user with this id; `undefined` once it is deleted, which ends all its grants. */
export async function findAccount(database: Queryable, id: string): Promise<UserAccount | undefined> {
  const [user] = await database.query<{ id: string; role: Role; name: string; email: string }>(
    'SELECT id, role, name, email FROM users WHERE id = $1 AND deleted_at IS NULL',
    [id],
  )
  return (
    user && {
      accountId: user.id,
      role: user.role,
      name: user.name,
      email: user.email,
      claims: () => ({ sub: user.id }),
    }
  )
}
