import { hash, randomBytes } from 'node:crypto'
import { v7 as uuid } from 'uuid'
import { isId } from '../caller.ts'
import type { Database, Queryable } from '../database/database.ts'
import { revokeGrantsOf } from './oauth/artifacts.ts'
import { ACCESS_TOKEN_SECONDS, CLOCK_TOLERANCE_MS, type Role, type TokenSubject } from './session-tokens.ts'
import type { Credentials } from './user-credentials.ts'

const REFRESH_TOKEN_BYTES = 32
const REFRESH_TOKEN_MS = 30 * 24 * 60 * 60 * 1000

/** No salt is needed: a token has 256 random bits. */
const sha256 = (token: string) => hash('sha256', token, 'hex')

export interface OpenedSession {
  readonly subject: TokenSubject
  readonly refreshToken: string
}

/** `reused`: the token was exchanged before, and its session is now revoked (RFC 9700 section 4.14.2). */
type Exchange =
  | { readonly outcome: 'rotated'; readonly session: OpenedSession }
  | { readonly outcome: 'invalid' }
  | { readonly outcome: 'reused'; readonly sessionId: string }

/** Starts a session; `undefined` when the password has changed since the sign-in. */
export function openSession(
  database: Database,
  { id: userId, role, passwordHash }: Pick<Credentials, 'id' | 'role' | 'passwordHash'>,
  now: Date,
): Promise<OpenedSession | undefined> {
  const sessionId = uuid()
  return database.transaction(async (transaction) => {
    const opened = await transaction.query(
      `INSERT INTO sessions (id, user_id, created_at)
       SELECT $1, id, $3 FROM users WHERE id = $2 AND password_hash = $4 RETURNING id`,
      [sessionId, userId, now, passwordHash],
    )
    if (opened.length === 0) return undefined
    const refreshToken = await storeRefreshToken(transaction, sessionId, now)
    return { subject: { userId, sessionId, role }, refreshToken }
  })
}

/**
 * Exchanges a refresh token for the next one. Of concurrent exchanges exactly one is `rotated`. There is no grace
 * period for lost responses, because it would hide a thief.
 */
export function exchangeRefreshToken(database: Database, token: string, now: Date): Promise<Exchange> {
  const tokenHash = sha256(token)
  return database.transaction(async (transaction): Promise<Exchange> => {
    const [consumed] = await transaction.query<{ sessionId: string; expiresAt: Date }>(
      `UPDATE refresh_tokens SET consumed_at = $2 WHERE hash = $1 AND consumed_at IS NULL
       RETURNING session_id AS "sessionId", expires_at AS "expiresAt"`,
      [tokenHash, now],
    )
    if (consumed === undefined) return reuseOrUnknown(transaction, tokenHash, now)
    const { sessionId, expiresAt } = consumed
    if (expiresAt <= now) return { outcome: 'invalid' }
    const [owner] = await transaction.query<{ userId: string; role: Role }>(
      `SELECT users.id AS "userId", users.role FROM sessions JOIN users ON users.id = sessions.user_id
        WHERE sessions.id = $1 AND sessions.revoked_at IS NULL AND users.deleted_at IS NULL`,
      [sessionId],
    )
    if (owner === undefined) return { outcome: 'invalid' }
    const refreshToken = await storeRefreshToken(transaction, sessionId, now)
    return { outcome: 'rotated', session: { subject: { ...owner, sessionId }, refreshToken } }
  })
}

async function reuseOrUnknown(transaction: Queryable, tokenHash: string, now: Date): Promise<Exchange> {
  const [family] = await transaction.query<{ sessionId: string }>(
    'SELECT session_id AS "sessionId" FROM refresh_tokens WHERE hash = $1',
    [tokenHash],
  )
  if (family === undefined) return { outcome: 'invalid' }
  await transaction.query('UPDATE sessions SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL', [
    family.sessionId,
    now,
  ])
  return { outcome: 'reused', ...family }
}

async function storeRefreshToken(transaction: Queryable, sessionId: string, now: Date): Promise<string> {
  const token = randomBytes(REFRESH_TOKEN_BYTES).toString('base64url')
  await transaction.query(
    'INSERT INTO refresh_tokens (hash, session_id, issued_at, expires_at) VALUES ($1, $2, $3, $4)',
    [sha256(token), sessionId, now, new Date(now.getTime() + REFRESH_TOKEN_MS)],
  )
  return token
}

/** Ends a session of this user and its refresh tokens. */
export async function revokeSession(
  database: Queryable,
  session: { readonly id: string; readonly userId: string },
  now: Date,
): Promise<void> {
  await database.query(
    'UPDATE sessions SET revoked_at = $3 WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL',
    [session.id, session.userId, now],
  )
}

/** Ends the user's sessions and grants except `exceptId`. Returns the ended ones whose access tokens may be valid. */
export async function revokeSessionsOf(
  transaction: Queryable,
  userId: string,
  now: Date,
  exceptId?: string,
): Promise<string[]> {
  // Sessions have a UUID, grants do not.
  const exceptSession = exceptId !== undefined && isId(exceptId) ? exceptId : null
  const lastIssued = new Date(now.getTime() - ACCESS_TOKEN_SECONDS * 1000 - CLOCK_TOLERANCE_MS)
  const recent = await transaction.query<{ id: string }>(
    `SELECT id FROM sessions
      WHERE user_id = $1 AND revoked_at IS NULL AND id IS DISTINCT FROM $2
        AND EXISTS (SELECT 1 FROM refresh_tokens WHERE session_id = sessions.id AND issued_at >= $3)
      ORDER BY id`,
    [userId, exceptSession, lastIssued],
  )
  await transaction.query(
    'UPDATE sessions SET revoked_at = $3 WHERE user_id = $1 AND revoked_at IS NULL AND id IS DISTINCT FROM $2',
    [userId, exceptSession, now],
  )
  const grants = await revokeGrantsOf(transaction, userId, now, exceptId)
  return [...recent.map(({ id }) => id), ...grants]
}
