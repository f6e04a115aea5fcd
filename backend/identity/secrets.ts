import { randomBytes } from 'node:crypto'
import type { Database, Queryable } from '../database/database.ts'

const SECRET_BYTES = 32

/** Secrets that all processes of one database share. */
export interface ServerSecrets {
  /** Derives nonces of DPoP (RFC 9449 section 8); 32 bytes. */
  readonly dpopNonce: Buffer
  /** Signs known browsers' cookies; 32 bytes. */
  readonly knownBrowser: Buffer
}

/** Loads the secrets and makes missing ones. Programs that start together get the same ones. */
export async function loadServerSecrets(database: Database): Promise<ServerSecrets> {
  return {
    dpopNonce: await sharedSecret(database, 'dpop_nonce', randomBytes(SECRET_BYTES)),
    knownBrowser: await sharedSecret(database, 'known_browser', randomBytes(SECRET_BYTES)),
  }
}

/** Stores the secret unless the name has one. Returns the stored one. */
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
