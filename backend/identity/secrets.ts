import { randomBytes } from 'node:crypto'
import type { Database, Queryable } from '../database/database.ts'

const SECRET_BYTES = 32

/** Secrets that all processes of one database share. Whoever can read the database has the signing keys anyway. */
export interface ServerSecrets {
  /** Nonces of DPoP (RFC 9449 section 8) are derived from it; 32 bytes. */
  readonly dpopNonce: Buffer
  /** Signs the cookie of a known browser; 32 bytes. */
  readonly knownBrowser: Buffer
}

/** Loads the secrets, and makes missing ones. Programs that start together get the same ones. */
export async function loadServerSecrets(database: Database): Promise<ServerSecrets> {
  return {
    dpopNonce: await sharedSecret(database, 'dpop_nonce', randomBytes(SECRET_BYTES)),
    knownBrowser: await sharedSecret(database, 'known_browser', randomBytes(SECRET_BYTES)),
  }
}

/** Stores the secret unless there is one of this name. @returns the stored one, the same for all processes */
export async function sharedSecret(database: Queryable, name: string, candidate: Buffer): Promise<Buffer> {
  await database.query('INSERT INTO server_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    name,
    candidate,
  ])
  const [row] = await database.query<{ value: Uint8Array }>(
    'SELECT value FROM server_secrets WHERE name = $1',
    [name],
  )
  if (row === undefined) throw new Error(`the secret ${name} was deleted while it was read`)
  return Buffer.from(row.value)
}
