import { v7 as uuid } from 'uuid'
import { type Database, type Queryable, type Row, sqlState } from './database/database.ts'
import { revokeSessionsOf } from './identity/session-store.ts'
import type { Role } from './identity/session-tokens.ts'
import { emailKey } from './identity/user-credentials.ts'
import { closeAccount, openAccount } from './money/ledger.ts'

/** A user as the API shows it. */
export interface User {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly createdAt: Date
  readonly updatedAt: Date
}

interface UserRow extends Row {
  id: string
  name: string
  email: string
  created_at: Date
  updated_at: Date
}

const UNIQUE_VIOLATION = '23505'

const COLUMNS = 'id, name, email, created_at, updated_at'

function toUser(row: UserRow): User {
  return {
    id: row.id,
    name: row.name,
    email: row.email,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** The user with this id; `undefined` when there is none or it was deleted. */
export async function findUser(database: Queryable, id: string): Promise<User | undefined> {
  const [row] = await database.query<UserRow>(
    `SELECT ${COLUMNS} FROM users WHERE id = $1 AND deleted_at IS NULL`,
    [id],
  )
  return row && toUser(row)
}

/** At most `limit` users after the one with the id `after`, oldest first, and whether there are more. */
export async function listUsers(
  database: Queryable,
  page: { readonly after?: string | undefined; readonly limit: number },
): Promise<{ readonly users: User[]; readonly more: boolean }> {
  const rows = await database.query<UserRow>(
    `SELECT ${COLUMNS} FROM users WHERE deleted_at IS NULL AND ($1::uuid IS NULL OR id > $1)
      ORDER BY id LIMIT $2`,
    [page.after ?? null, page.limit + 1],
  )
  return { users: rows.slice(0, page.limit).map(toUser), more: rows.length > page.limit }
}

export interface NewUser {
  readonly name: string
  readonly email: string
  readonly passwordHash?: string | undefined
  readonly role: Role
}

/** Adds a user with an empty account. @returns both, or `'email_taken'` when another user signs in with the address */
export async function addUser(
  transaction: Queryable,
  user: NewUser,
  now: Date,
): Promise<{ readonly user: User; readonly accountId: string } | 'email_taken'> {
  const [row] = await transaction.query<UserRow>(
    `INSERT INTO users (id, name, email, email_key, password_hash, role, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (email_key) DO NOTHING RETURNING ${COLUMNS}`,
    [uuid(), user.name, user.email, emailKey(user.email), user.passwordHash ?? null, user.role, now],
  )
  if (row === undefined) return 'email_taken'
  return { user: toUser(row), accountId: await openAccount(transaction, row.id, now) }
}

/** Omitted fields stay as they are. */
export interface UserChange {
  readonly name?: string | undefined
  /** As the record shows it; several users may give the same one. */
  readonly email?: string | undefined
  /** The address to sign in with; unique. */
  readonly signInEmail?: string | undefined
  readonly passwordHash?: string | undefined
}

/** A changed user, and the sessions that a new password ended whose access tokens may still be valid. */
export interface ChangedUser {
  readonly user: User
  readonly endedSessions: readonly string[]
}

/** The user to change. */
export interface ChangeTarget {
  readonly id: string
  /** The session that goes on after a new password. */
  readonly keepSession?: string | undefined
  /** The hash of the password given for this change, which is not made when the password has changed meanwhile. */
  readonly provenHash?: string | undefined
}

/**
 * Changes a user. A new password ends every session but `keepSession`. Gives `undefined` for an unknown user and
 * `'email_taken'` when another user signs in with the address.
 */
export async function changeUser(
  database: Database,
  target: ChangeTarget,
  edit: { readonly change: UserChange; readonly now: Date },
): Promise<ChangedUser | 'email_taken' | undefined> {
  try {
    return await database.transaction((transaction) => change(transaction, target, edit))
  } catch (fault) {
    // The only unique column changed here. Checking first is not enough: another request may take it in between.
    if (sqlState(fault) === UNIQUE_VIOLATION) return 'email_taken'
    throw fault
  }
}

async function change(
  transaction: Queryable,
  target: ChangeTarget,
  { change, now }: { readonly change: UserChange; readonly now: Date },
): Promise<ChangedUser | 'email_taken' | undefined> {
  const [row] = await transaction.query<UserRow>(
    `UPDATE users SET name = coalesce($2, name), email = coalesce($3, email), email_key = coalesce($4, email_key),
            password_hash = coalesce($5, password_hash), updated_at = $6
      WHERE id = $1 AND deleted_at IS NULL AND ($7::text IS NULL OR password_hash = $7) RETURNING ${COLUMNS}`,
    [
      target.id,
      change.name ?? null,
      change.email ?? null,
      change.signInEmail === undefined ? null : emailKey(change.signInEmail),
      change.passwordHash ?? null,
      now,
      target.provenHash ?? null,
    ],
  )
  if (row === undefined) return undefined
  const endedSessions =
    change.passwordHash === undefined
      ? []
      : await revokeSessionsOf(transaction, target.id, { exceptId: target.keepSession, now })
  return { user: toUser(row), endedSessions }
}

/**
 * Deletes a user: the personal data is erased, the account closed, every session ended. The row and the ledger stay,
 * because ledger entries need their account. @returns the sessions whose access tokens may still be valid;
 * `undefined` for an unknown user
 */
export function deleteUser(
  database: Database,
  { id, provenHash }: Pick<ChangeTarget, 'id' | 'provenHash'>,
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
    return revokeSessionsOf(transaction, id, { now })
  })
}
