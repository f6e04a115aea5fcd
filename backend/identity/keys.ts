import { createPrivateKey, generateKeyPairSync, hash, type KeyObject, type webcrypto } from 'node:crypto'
import { type Static, Type } from 'typebox'
import type { Database, Queryable } from '../database/database.ts'

/** The algorithm that signs every token. */
export const ALGORITHM = 'ES256'

export const Jwk = Type.Object({
  kty: Type.String({ examples: ['EC'] }),
  crv: Type.String({ examples: ['P-256'] }),
  x: Type.String(),
  y: Type.String(),
  kid: Type.String(),
  alg: Type.String({ examples: ['ES256'] }),
  use: Type.String({ examples: ['sig'] }),
})

export type PublishedKey = Readonly<Static<typeof Jwk>>

interface PrivateJwk extends PublishedKey {
  readonly d: string
}

interface SigningKey {
  readonly kid: string
  readonly privateKey: KeyObject
  readonly jwk: PrivateJwk
  readonly signsFrom: Date
  readonly signsUntil: Date | null
  readonly publishedUntil: Date | null
}

/** Loads the signing keys (P-256) and makes one when none may sign. Programs that start together get the same one. */
export async function loadSigningKeys(database: Database, clock: () => Date): Promise<SigningKeys> {
  const keys = new SigningKeys(database, clock)
  await keys.refresh()
  return keys
}

/** The issuer's present keys. All processes change over together, because the times are stored before a key signs. */
export class SigningKeys {
  readonly #database: Database
  readonly #clock: () => Date
  #keys: readonly SigningKey[] = []

  constructor(database: Database, clock: () => Date) {
    this.#database = database
    this.#clock = clock
  }

  /** The key that signs now; the oldest when none may, because our clock is behind. */
  get current(): Pick<SigningKey, 'kid' | 'privateKey'> {
    return this.#signer(this.#clock())
  }

  /** The keys whose tokens may still be valid, and the next key. The present signer comes first. */
  get privateKeys(): PrivateJwk[] {
    const now = this.#clock()
    const signer = this.#signer(now)
    const others = this.#keys.filter((key) => key !== signer && isBefore(now, key.publishedUntil))
    return [signer, ...others].map(({ jwk }) => jwk)
  }

  /** The key set (RFC 7517). The code names each member, so that no other member of a stored key is published. */
  get published(): { readonly keys: PublishedKey[] } {
    const keys = this.privateKeys.map(({ kty, crv, x, y, kid, alg, use }) => ({
      kty,
      crv,
      x,
      y,
      kid,
      alg,
      use,
    }))
    return { keys }
  }

  /** Reads the keys again, because another process may have added one. */
  async refresh(): Promise<void> {
    this.#keys = (await readKeys(this.#database, this.#clock())).map(load)
  }

  #signer(now: Date): SigningKey {
    const signs = ({ signsFrom, signsUntil }: SigningKey) => signsFrom <= now && isBefore(now, signsUntil)
    const signer = this.#keys.find(signs) ?? this.#keys.at(-1)
    if (signer === undefined) throw new Error('there is no signing key')
    return signer
  }
}

/** A `null` end means no end. */
function isBefore(now: Date, end: Date | null): boolean {
  return end === null || end > now
}

type KeyRow = Omit<SigningKey, 'privateKey' | 'jwk'> & {
  readonly algorithm: string
  readonly publicJwk: webcrypto.JsonWebKey
  readonly privateJwk: webcrypto.JsonWebKey
}

async function readKeys(database: Database, now: Date): Promise<KeyRow[]> {
  // A key that signs only later counts too: a program with a fast clock made it, and this program must sign with it too.
  const maySign = (rows: readonly KeyRow[]) => rows.some(({ signsUntil }) => isBefore(now, signsUntil))
  const known = await storedKeys(database, now)
  if (maySign(known)) return known
  return database.transaction(async (transaction) => {
    const found = await storedKeys(transaction, now)
    if (maySign(found)) return found
    await storeNewKey(transaction, { now, signsFrom: now })
    return storedKeys(transaction, now)
  })
}

function storedKeys(database: Queryable, now: Date): Promise<KeyRow[]> {
  return database.query<KeyRow>(
    `SELECT kid, algorithm, public_jwk AS "publicJwk", private_jwk AS "privateJwk", signs_from AS "signsFrom",
            signs_until AS "signsUntil", published_until AS "publishedUntil"
       FROM signing_keys WHERE published_until IS NULL OR published_until > $1
      ORDER BY signs_from DESC, kid`,
    [now],
  )
}

/** Stores a new key that is published at once and signs from `signsFrom`. Returns its id. */
export async function storeNewKey(
  transaction: Queryable,
  { now, signsFrom }: { readonly now: Date; readonly signsFrom: Date },
): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { d, ...publicJwk } = privateKey.export({ format: 'jwk' })
  const { crv, kty, x, y } = publicJwk
  // RFC 7638 thumbprint.
  const kid = hash('sha256', JSON.stringify({ crv, kty, x, y }), 'base64url')
  await transaction.query(
    `INSERT INTO signing_keys (kid, algorithm, public_jwk, private_jwk, created_at, signs_from)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [kid, ALGORITHM, JSON.stringify(publicJwk), JSON.stringify({ ...publicJwk, d }), now, signsFrom],
  )
  return kid
}

function load({ kid, algorithm, publicJwk, privateJwk, ...times }: KeyRow): SigningKey {
  const { kty, crv, x, y } = publicJwk
  const { d } = privateJwk
  if (kty !== 'EC' || !crv || !x || !y || !d)
    throw new Error(`signing key ${kid} is not an elliptic curve key`)
  const jwk = { kty, crv, x, y, d, kid, alg: algorithm, use: 'sig' }
  return { kid, privateKey: createPrivateKey({ key: { kty, crv, x, y, d }, format: 'jwk' }), jwk, ...times }
}
