import { v7 as uuid } from 'uuid'
import { type Database, type Queryable, sqlState } from './database/database.ts'
import { revokeSessionsOf } from './identity/session-store.ts'
import type { Role } from './identity/session-tokens.ts'
import { emailKey } from './identity/user-credentials.ts'
import { closeAccount, openAccount } from './money/ledger.ts'

export type User = {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly createdAt: Date
  readonly updatedAt: Date
}

const COLUMNS = 'id, name, email, created_at AS "createdAt", updated_at AS "updatedAt"'

const UNIQUE_VIOLATION = '23505'

export async function findUser(database: Queryable, id: string): Promise<User | undefined> {
  const sql = `SELECT ${COLUMNS} FROM users WHERE id = $1 AND deleted_at IS NULL`
  const [user] = await database.query<User>(sql, [id])
  return user
}

/** Lists users after the id `after`, oldest first. */
export function listUsers(
  database: Queryable,
  limit: number,
  after = null as string | null,
): Promise<User[]> {
  return database.query<User>(
    `SELECT ${COLUMNS} FROM users WHERE deleted_at IS NULL AND ($1::uuid IS NULL OR id > $1)
      ORDER BY id LIMIT $2`,
    [after, limit],
  )
}

/** Adds a user with an empty account. Returns both; `'email_taken'` when another user signs in with the address. */
export async function addUser(
  transaction: Queryable,
  user: Pick<User, 'name' | 'email'> & { readonly passwordHash?: string | undefined; readonly role: Role },
  now: Date,
): Promise<{ readonly user: User; readonly accountId: string } | 'email_taken'> {
  const [added] = await transaction.query<User>(
    `INSERT INTO users (id, name, email, email_key, password_hash, role, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (email_key) DO NOTHING RETURNING ${COLUMNS}`,
    [uuid(), user.name, user.email, emailKey(user.email), user.passwordHash ?? null, user.role, now],
  )
  if (added === undefined) return 'email_taken'
  return { user: added, accountId: await openAccount(transaction, added.id, now) }
}

/** Omitted fields stay as they are. */
interface UserChange {
  readonly name?: string | undefined
  /** The address that the record shows; not unique. */
  readonly email?: string | undefined
  /** The address to sign in with; unique. */
  readonly signInEmail?: string | undefined
  readonly passwordHash?: string | undefined
}

interface ChangeTarget {
  readonly id: string
  readonly keepSession?: string | undefined
  /** The hash of the password that the caller gave. Nothing changes when the user has another hash by now. */
  readonly provenHash?: string | undefined
}

/**
 * Changes a user. A new password ends every session but `keepSession`. Returns the user and the ended sessions whose access
 * tokens may still be valid; `undefined` for an unknown user; `'email_taken'` when another user signs in with the address.
 */
export async function changeUser(
  database: Database,
  { id, keepSession, provenHash }: ChangeTarget,
  { name, email, signInEmail, passwordHash }: UserChange,
  now: Date,
): Promise<{ readonly user: User; readonly endedSessions: readonly string[] } | 'email_taken' | undefined> {
  const key = signInEmail === undefined ? null : emailKey(signInEmail)
  const change = async (transaction: Queryable) => {
    const [user] = await transaction.query<User>(
      `UPDATE users SET name = coalesce($2, name), email = coalesce($3, email), email_key = coalesce($4, email_key),
              password_hash = coalesce($5, password_hash), updated_at = $6
        WHERE id = $1 AND deleted_at IS NULL AND ($7::text IS NULL OR password_hash = $7) RETURNING ${COLUMNS}`,
      [id, name ?? null, email ?? null, key, passwordHash ?? null, now, provenHash ?? null],
    )
    if (user === undefined) return undefined
    const ends = passwordHash !== undefined
    return { user, endedSessions: ends ? await revokeSessionsOf(transaction, id, now, keepSession) : [] }
  }
  try {
    return await database.transaction(change)
  } catch (fault) {
    // The only unique column that changes here is the address.
    if (sqlState(fault) === UNIQUE_VIOLATION) return 'email_taken'
    throw fault
  }
}

/**
 * Erases personal data, closes the account and ends every session. The row and the ledger stay. Returns the sessions whose access
 * tokens may still be valid; `undefined` for an unknown user.
 */
export function deleteUser(
  database: Database,
  { id, provenHash }: ChangeTarget,
  now: Date,
): Promise<readonly string[] | undefined> {
  return database.transaction(async (transaction) => {
    const erased = await transaction.query(
      `UPDATE users SET name = NULL, email = NULL, email_key = NULL, password_hash = NULL,
              updated_at = $2, deleted_at = $2
        WHERE id = $1 AND deleted_at IS NULL AND ($3::text IS NULL OR password_hash = $3) RETURNING id`,
      [id, now, provenHash ?? null],
    )
    if (erased.length === 0) return undefined
    await closeAccount(transaction, id, now)
    await transaction.query('DELETE FROM idempotency_keys WHERE caller = $1', [id])
    return revokeSessionsOf(transaction, id, now)
  })
}
