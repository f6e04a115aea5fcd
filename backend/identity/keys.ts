import { createPrivateKey, generateKeyPairSync, hash, type KeyObject, type webcrypto } from 'node:crypto'
import type { Database, Queryable, Row } from '../database/database.ts'

/** What every token is signed with. */
export const ALGORITHM = 'ES256'

/** The key that signs now. */
export interface SigningKey {
  readonly kid: string
  readonly privateKey: KeyObject
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

/** A published key with its private half, for the authorization server. */
export interface PrivateJwk extends PublishedKey {
  readonly d: string
}

/** The present keys of the issuer. */
export interface SigningKeys {
  readonly current: SigningKey
  /** RFC 7517 key set: keys of tokens that may still be valid, and the next signing key; public members only. */
  readonly published: { readonly keys: PublishedKey[] }
  /** The same keys with their private halves; the one that signs now comes first. */
  readonly privateKeys: readonly PrivateJwk[]
  /** Reads what another process, or the command, has added since. */
  refresh(): Promise<void>
}

interface KeyRow extends Row {
  kid: string
  algorithm: string
  public_jwk: webcrypto.JsonWebKey
  private_jwk: webcrypto.JsonWebKey
  signs_from: Date
  signs_until: Date | null
  published_until: Date | null
}

interface LoadedKey extends SigningKey {
  readonly jwk: PrivateJwk
  readonly signsFrom: Date
  readonly signsUntil: Date | null
  readonly publishedUntil: Date | null
}

/**
 * Loads the signing keys (P-256, ES256) from the database, and makes one when none may sign any more. Programs that
 * start together get the same key, because the transaction is serialisable.
 */
export async function loadSigningKeys(database: Database, clock: () => Date): Promise<SigningKeys> {
  return new KeyRing({ database, clock, keys: await readKeys(database, clock()) })
}

/**
 * The keys and the times from which and until which each signs and is published. The times are stored before
 * a key signs, so every process changes over at the same time without communication.
 */
class KeyRing implements SigningKeys {
  readonly #database: Database
  readonly #clock: () => Date
  #keys: readonly LoadedKey[]

  constructor(ring: {
    readonly database: Database
    readonly clock: () => Date
    readonly keys: readonly LoadedKey[]
  }) {
    this.#database = ring.database
    this.#clock = ring.clock
    this.#keys = ring.keys
  }

  get current(): SigningKey {
    return this.#signer(this.#clock())
  }

  get published(): { readonly keys: PublishedKey[] } {
    return { keys: this.#inForce().map(({ jwk }) => publicHalf(jwk)) }
  }

  get privateKeys(): readonly PrivateJwk[] {
    return this.#inForce().map(({ jwk }) => jwk)
  }

  async refresh(): Promise<void> {
    this.#keys = await readKeys(this.#database, this.#clock())
  }

  #signer(now: Date): LoadedKey {
    const signer = this.#keys.find((key) => signs(key, now))
    // Otherwise our clock is behind: verifiers have known the oldest key for longest.
    const fallback = signer ?? this.#keys.at(-1)
    if (fallback === undefined) throw new Error('there is no signing key')
    return fallback
  }

  #inForce(): LoadedKey[] {
    const now = this.#clock()
    const signer = this.#signer(now)
    const others = this.#keys.filter(
      (key) => key !== signer && (key.publishedUntil === null || key.publishedUntil > now),
    )
    return [signer, ...others]
  }
}

function signs({ signsFrom, signsUntil }: LoadedKey, now: Date): boolean {
  return signsFrom <= now && (signsUntil === null || signsUntil > now)
}

/** Also a key from the future: another program made it, whose clock is ahead of ours, and both must sign with the same. */
function mayYetSign({ signs_until: signsUntil }: KeyRow, now: Date): boolean {
  return signsUntil === null || signsUntil > now
}

async function readKeys(database: Database, now: Date): Promise<LoadedKey[]> {
  const known = await storedKeys(database, now)
  if (known.some((row) => mayYetSign(row, now))) return known.map(load)
  const candidate = newKey()
  const rows = await database.transaction(async (transaction) => {
    const found = await storedKeys(transaction, now)
    if (found.some((row) => mayYetSign(row, now))) return found
    await storeKey(transaction, candidate, { now, signsFrom: now })
    return storedKeys(transaction, now)
  })
  return rows.map(load)
}

/** Latest first. */
function storedKeys(database: Queryable, now: Date): Promise<KeyRow[]> {
  return database.query<KeyRow>(
    `SELECT kid, algorithm, public_jwk, private_jwk, signs_from, signs_until, published_until
       FROM signing_keys WHERE published_until IS NULL OR published_until > $1
      ORDER BY signs_from DESC, kid`,
    [now],
  )
}

/** A new key pair, not stored yet. */
export interface NewKey {
  readonly kid: string
  readonly publicJwk: webcrypto.JsonWebKey
  readonly privateJwk: webcrypto.JsonWebKey
}

export function newKey(): NewKey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const publicJwk = publicKey.export({ format: 'jwk' })
  const { crv, kty, x, y } = publicJwk
  return {
    // RFC 7638: the id follows from the key, so two keys never share one.
    kid: hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url'),
    publicJwk,
    privateJwk: privateKey.export({ format: 'jwk' }),
  }
}

/** Stores a key that is published at once and signs from `signsFrom`. */
export async function storeKey(
  transaction: Queryable,
  key: NewKey,
  { now, signsFrom }: { readonly now: Date; readonly signsFrom: Date },
): Promise<void> {
  await transaction.query(
    `INSERT INTO signing_keys (kid, algorithm, public_jwk, private_jwk, created_at, signs_from)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [key.kid, ALGORITHM, JSON.stringify(key.publicJwk), JSON.stringify(key.privateJwk), now, signsFrom],
  )
}

function load(row: KeyRow): LoadedKey {
  const { kid, algorithm } = row
  const { kty, crv, x, y } = row.public_jwk
  const { d } = row.private_jwk
  if (kty !== 'EC' || !crv || !x || !y || !d)
    throw new Error(`signing key ${kid} is not an elliptic curve key`)
  const jwk: PrivateJwk = { kty, crv, x, y, d, kid, alg: algorithm, use: 'sig' }
  return {
    kid,
    privateKey: createPrivateKey({ key: { kty, crv, x, y, d }, format: 'jwk' }),
    jwk,
    signsFrom: row.signs_from,
    signsUntil: row.signs_until,
    publishedUntil: row.published_until,
  }
}

/** Names each member, so that nothing added to a stored key is published by accident. */
function publicHalf({ kty, crv, x, y, kid, alg, use }: PrivateJwk): PublishedKey {
  return { kty, crv, x, y, kid, alg, use }
}
