import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose'
import type { Database } from '../database/database.ts'

const ALGORITHM = 'ES256'

/** The key that signs now. */
export interface SigningKey {
  readonly kid: string
  readonly algorithm: string
  readonly privateKey: CryptoKey
}

/** A public key as the key set shows it. */
export interface PublishedKey {
  readonly kty: string
  readonly crv: string
  readonly x: string
  readonly y: string
  readonly kid: string
  readonly alg: string
  readonly use: 'sig'
}

/** The keys of the issuer: the one that signs, and the public halves of all that may still be verified. */
export interface SigningKeys {
  readonly current: SigningKey
  /** RFC 7517 key set; public members only. */
  readonly published: { readonly keys: PublishedKey[] }
}

interface KeyRow extends Record<string, unknown> {
  kid: string
  algorithm: string
  public_jwk: JWK
  private_jwk: JWK
  signs: boolean
}

/**
 * Loads the signing keys (P-256, ES256) from the database, and makes the first one when none may sign at `now`.
 * Programs that start together end with the same key: the transaction is serialisable.
 */
export async function loadSigningKeys(database: Database, now: Date): Promise<SigningKeys> {
  const candidate = await newKey()
  const rows = await database.transaction(async (transaction) => {
    const found = await transaction.query<KeyRow>(
      `SELECT kid, algorithm, public_jwk, private_jwk,
              signs_from <= $1 AND (signs_until IS NULL OR signs_until > $1) AS signs
         FROM signing_keys
        WHERE published_until IS NULL OR published_until > $1
        ORDER BY signs_from DESC, kid`,
      [now],
    )
    if (found.some((row) => row.signs)) return found
    await transaction.query(
      `INSERT INTO signing_keys (kid, algorithm, public_jwk, private_jwk, created_at, signs_from)
       VALUES ($1, $2, $3, $4, $5, $5)`,
      [
        candidate.kid,
        candidate.algorithm,
        JSON.stringify(candidate.public_jwk),
        JSON.stringify(candidate.private_jwk),
        now,
      ],
    )
    return [candidate, ...found]
  })
  const current = rows.find((row) => row.signs) ?? candidate
  const privateKey = await importJWK(current.private_jwk, current.algorithm)
  if (privateKey instanceof Uint8Array)
    throw new Error(`signing key ${current.kid} is not an elliptic curve key`)
  return {
    current: { kid: current.kid, algorithm: current.algorithm, privateKey },
    published: { keys: rows.map(published) },
  }
}

async function newKey(): Promise<KeyRow> {
  const pair = await generateKeyPair(ALGORITHM, { extractable: true })
  const public_jwk = await exportJWK(pair.publicKey)
  return {
    // RFC 7638: the id follows from the key, so two keys never share one.
    kid: await calculateJwkThumbprint(public_jwk),
    algorithm: ALGORITHM,
    public_jwk,
    private_jwk: await exportJWK(pair.privateKey),
    signs: true,
  }
}

/** Members are named one by one: nothing that is added to a stored key may ever be published by accident. */
function published({ kid, algorithm, public_jwk }: KeyRow): PublishedKey {
  const { kty, crv, x, y } = public_jwk
  if (kty !== 'EC' || !crv || !x || !y) throw new Error(`signing key ${kid} is not an elliptic curve key`)
  return { kty, crv, x, y, kid, alg: algorithm, use: 'sig' }
}
