import { randomBytes } from 'node:crypto'
import type { Database } from '../database/database.ts'

const SECRET_BYTES = 32

/** Secrets that all processes over one database share. Whoever reads the database has the signing keys anyway. */
export interface ServerSecrets {
  /** From which the nonces of DPoP (RFC 9449 section 8) follow; 32 bytes. */
  readonly dpopNonce: Buffer
  /** With which the cookie of a known browser is signed; 32 bytes. */
  readonly knownBrowser: Buffer
}

/** Loads the secrets, and makes those that are missing. Programs that start together end with the same ones. */
export async function loadServerSecrets(database: Database): Promise<ServerSecrets> {
  return {
    dpopNonce: await loadSecret(database, 'dpop_nonce'),
    knownBrowser: await loadSecret(database, 'known_browser'),
  }
}

/** Makes all of them anew: nonces and cookies that are out are asked for again, nothing else comes of it. */
export async function replaceServerSecrets(database: Database): Promise<ServerSecrets> {
  await database.query('DELETE FROM server_secrets')
  return loadServerSecrets(database)
}

async function loadSecret(database: Database, name: string): Promise<Buffer> {
  await database.query('INSERT INTO server_secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    name,
    randomBytes(SECRET_BYTES),
  ])
  const [row] = await database.query<{ value: Uint8Array }>(
    'SELECT value FROM server_secrets WHERE name = $1',
    [name],
  )
  if (row === undefined) throw new Error(`the secret ${name} was deleted while it was read`)
  return Buffer.from(row.value)
}
