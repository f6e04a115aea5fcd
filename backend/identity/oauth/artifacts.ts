import { hash } from 'node:crypto'
import type { Adapter, AdapterPayload } from 'oidc-provider'
import type { Database, Queryable } from '../../database/database.ts'
import { CLOCK_TOLERANCE_MS, secondsOf } from '../session-tokens.ts'
import { isOfOldPassword } from './account.ts'
import { errors } from './library.ts'
import { changeAtEnd, UsedTwice } from './provider-database.ts'

/** Kinds of artifacts with parameters that anybody can send, such as `state`. */
const HOLDS_PARAMETERS: ReadonlySet<string> = new Set([
  'PushedAuthorizationRequest',
  'Interaction',
  'AuthorizationCode',
])
const MAX_STORED_CHARACTERS = 8 * 1024
/** Room for what a sign-in or consent adds. Without it, an accepted request could be refused after the sign-in. */
const MAX_ADDED_CHARACTERS = 1024

/** Stored in place of the artifact's own id. JSON texts never contain this character. */
const OWN_ID = '\u0001'

/** Kinds of artifacts that end when their user gets another password. */
const ENDS_WITH_PASSWORD: ReadonlySet<string> = new Set(['Session', 'Interaction'])

type ArtifactRow = {
  readonly payload: string
  readonly consumedAt: Date | null
  readonly accountId: string | null
  readonly passwordHash: string | null
}

/**
 * Stores one kind of oidc-provider's objects. Their ids are secrets, so only the SHA-256 is stored. Expired rows are
 * still returned, because the provider checks the time itself.
 */
export function artifactStore(model: string, database: Database): Adapter {
  const findBy = async (
    column: 'id_hash' | 'uid',
    value: string,
    id?: string,
  ): Promise<AdapterPayload | undefined> => {
    const [row] = await database.query<ArtifactRow>(
      `SELECT payload, consumed_at AS "consumedAt", account_id AS "accountId", password_hash AS "passwordHash"
         FROM oauth_artifacts LEFT JOIN users ON users.id = account_id WHERE model = $1 AND ${column} = $2`,
      [model, value],
    )
    if (row === undefined) return undefined
    const stored = JSON.parse(row.payload.replaceAll(OWN_ID, id ?? '')) as AdapterPayload
    const payload = row.consumedAt === null ? stored : { ...stored, consumed: secondsOf(row.consumedAt) }
    if (!ENDS_WITH_PASSWORD.has(model) || row.accountId === null) return payload
    return isOfOldPassword(signInOf(payload)?.amr ?? [], row.passwordHash) ? undefined : payload
  }
  return {
    upsert: async (id, payload, expiresInSeconds: number) => {
      const { jti: _secret, session, ...rest } = payload
      // The library stores the browser's session id with a sign-in under way, but never reads it there.
      const { cookie: _cookie, ...who } = session ?? {}
      const text = JSON.stringify(session ? { ...rest, session: who } : rest).replaceAll(id, OWN_ID)
      const isBegun =
        model === 'AuthorizationCode' || (payload.result ?? payload.lastSubmission) !== undefined
      const maxCharacters = MAX_STORED_CHARACTERS + (isBegun ? MAX_ADDED_CHARACTERS : 0)
      if (HOLDS_PARAMETERS.has(model) && text.length > maxCharacters) {
        throw new errors.InvalidRequest('the parameters of the request are too long')
      }
      // The provider reads the system clock too.
      const now = Date.now()
      const row = [
        model,
        hashed(id),
        text,
        model === 'Grant' ? id : (payload.grantId ?? null),
        signInOf(payload)?.accountId ?? null,
        payload.uid ?? null,
        new Date(now + expiresInSeconds * 1000),
        new Date(now),
      ]
      // A proof counts as used even when the request is refused.
      const condition = model === 'ReplayDetection' ? 'answered' : 'issued'
      await changeAtEnd(database, condition, (transaction) => upsertRow(transaction, row))
    },
    find: async (id) => {
      // Clients come from the configuration, never from a request.
      if (model === 'Client') return undefined
      const payload = await findBy('id_hash', hashed(id), id)
      return payload && { ...payload, jti: id }
    },
    // The id stays secret from those who know only the uid.
    findByUid: (uid) => findBy('uid', uid),
    // The device flow is off.
    findByUserCode: async () => undefined,
    consume: (id) =>
      changeAtEnd(database, 'issued', (transaction) => consumeRow(transaction, [model, hashed(id)])),
    destroy: (id) =>
      changeAtEnd(database, 'answered', async (transaction) => {
        const sql = 'DELETE FROM oauth_artifacts WHERE model = $1 AND id_hash = $2'
        await transaction.query(sql, [model, hashed(id)])
      }),
    revokeByGrantId: (grantId) =>
      changeAtEnd(database, 'answered', (transaction) => deleteGrant(transaction, grantId)),
  }
}

/** Marks the row as used. Of simultaneous uses one succeeds, the others throw {@link UsedTwice} (RFC 9700 section 4.14.2). */
async function consumeRow(database: Queryable, key: readonly [model: string, idHash: string]): Promise<void> {
  const consumed = await database.query(
    `UPDATE oauth_artifacts SET consumed_at = $3
      WHERE model = $1 AND id_hash = $2 AND consumed_at IS NULL RETURNING 1 AS consumed`,
    [...key, new Date()],
  )
  if (consumed.length > 0) return
  const [reused] = await database.query<{ grantId: string | null }>(
    'SELECT grant_id AS "grantId" FROM oauth_artifacts WHERE model = $1 AND id_hash = $2',
    key,
  )
  throw new UsedTwice(reused?.grantId ?? null)
}

export async function deleteGrant(database: Queryable, grantId: string): Promise<void> {
  await database.query('DELETE FROM oauth_artifacts WHERE grant_id = $1', [grantId])
}

async function upsertRow(database: Queryable, row: readonly unknown[]): Promise<void> {
  const stored = await database.query(
    `INSERT INTO oauth_artifacts AS artifacts
       (model, id_hash, payload, grant_id, account_id, uid, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (model, id_hash) DO UPDATE
       SET payload = excluded.payload, grant_id = excluded.grant_id, account_id = excluded.account_id,
           uid = excluded.uid, expires_at = excluded.expires_at
     WHERE artifacts.model <> 'ReplayDetection' OR artifacts.expires_at <= $8
     RETURNING 1 AS stored`,
    row,
  )
  if (stored.length === 0) throw new errors.InvalidGrant('the same proof or assertion came twice')
}

/** The user of an artifact or of a sign-in under way, and how that user signed in. */
function signInOf(payload: AdapterPayload): Pick<AdapterPayload, 'accountId' | 'amr'> | undefined {
  return payload.accountId === undefined ? (payload.result?.login ?? payload.session) : payload
}

/** The stored form of an id. No salt is needed: ids have 256 random bits. */
function hashed(id: string): string {
  return hash('sha256', id, 'hex')
}

/** Ends a grant of this user and its artifacts. */
export async function revokeGrant(
  database: Queryable,
  grant: { readonly id: string; readonly userId: string },
): Promise<void> {
  await database.query(
    `DELETE FROM oauth_artifacts WHERE grant_id = $1 AND EXISTS
       (SELECT 1 FROM oauth_artifacts WHERE model = 'Grant' AND grant_id = $1 AND account_id = $2)`,
    [grant.id, grant.userId],
  )
}

/** Records that an access token is about to be issued. Throws `invalid_grant` when the grant has ended meanwhile. */
export async function noteAccessToken(
  database: Queryable,
  token: { readonly grantId: string; readonly expiresAtMs: number },
): Promise<void> {
  const noted = await database.query(
    `UPDATE oauth_artifacts SET tokens_until = greatest(tokens_until, $2)
      WHERE model = 'Grant' AND grant_id = $1 RETURNING 1 AS noted`,
    [token.grantId, new Date(token.expiresAtMs + CLOCK_TOLERANCE_MS)],
  )
  if (noted.length === 0) throw new errors.InvalidGrant('the grant has ended')
}

/**
 * Ends the grants, sign-ins and signed-in browsers of a user, except the grant `exceptId`. Returns the ended grants
 * whose access tokens may still be valid.
 */
export async function revokeGrantsOf(
  transaction: Queryable,
  userId: string,
  now: Date,
  exceptId: string | null = null,
): Promise<string[]> {
  const ended = await transaction.query<{ id: string }>(
    `SELECT grant_id AS id FROM oauth_artifacts
      WHERE model = 'Grant' AND account_id = $1 AND grant_id IS DISTINCT FROM $2 AND tokens_until > $3
      ORDER BY grant_id`,
    [userId, exceptId, now],
  )
  await transaction.query(
    'DELETE FROM oauth_artifacts WHERE account_id = $1 AND (grant_id IS NULL OR grant_id IS DISTINCT FROM $2)',
    [userId, exceptId],
  )
  return ended.map(({ id }) => id)
}
