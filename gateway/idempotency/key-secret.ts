import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'

const NONCE_BYTES = 12
const COUNT_BYTES = 6
const TAG_BYTES = 16
const SALT_BYTES = 32
/** A block of SHA-256. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
const LENGTH_BYTES = 4
const TEXT_BYTES = 16 * 1024
/** 132 bits in base64url. */
const NAME_CHARS = 22
const KEY_NAME_CHARS = 6
export const ID_CHARS = KEY_NAME_CHARS + NAME_CHARS
/** A caller takes about 250 bytes. */
const MAX_CALLERS = 20_000

/** One line of `idempotencyKeyFile`: names callers and keys, and derives the key of each file (HKDF, RFC 5869). */
export class KeySecret {
  readonly name: string
  readonly #secret: string
  /** The blocks of HMAC (RFC 2104), each with room for what is hashed behind it. */
  readonly #inner = Buffer.alloc(BLOCK_BYTES + TEXT_BYTES, 0x36)
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, 0x5c)
  // With `max` the cache would take 2 ms to make places for all.
  readonly #callers = new LRUCache<string, string>({ maxSize: MAX_CALLERS, sizeCalculation: () => 1 })
  /** Begins with the name of the secret. */
  readonly #id = Buffer.alloc(ID_CHARS)

  constructor(secret: string) {
    this.#secret = secret
    for (const [at, byte] of this.#derive('', 'countersign idempotency names').entries()) {
      this.#inner[at] = 0x36 ^ byte
      this.#outer[at] = 0x5c ^ byte
    }
    this.name = this.nameOf('').slice(0, KEY_NAME_CHARS)
    this.#id.write(this.name)
  }

  /** HMAC-SHA-256 of all parts. Two one-shot hashes take half the time of an `Hmac`. */
  nameOf(...parts: readonly (string | Uint8Array)[]): string {
    let most = BLOCK_BYTES
    for (const part of parts) most += LENGTH_BYTES + (typeof part === 'string' ? 3 : 1) * part.length
    const inner =
      most <= this.#inner.length
        ? this.#inner
        : Buffer.concat([this.#inner.subarray(0, BLOCK_BYTES), Buffer.alloc(most - BLOCK_BYTES)])
    let end = BLOCK_BYTES
    for (const part of parts) {
      const at = end + LENGTH_BYTES
      if (typeof part !== 'string') inner.set(part, at)
      const bytes = typeof part === 'string' ? inner.write(part, at) : part.length
      inner.writeUInt32LE(bytes, end)
      end = at + bytes
    }
    // A text, because making a buffer would cost more than the hash.
    this.#outer.write(hash('sha256', inner.subarray(0, end), 'latin1'), BLOCK_BYTES, 'latin1')
    return hash('sha256', this.#outer, 'base64url').slice(0, NAME_CHARS)
  }

  callerOf(caller: string): string {
    let name = this.#callers.get(caller)
    if (name === undefined) {
      name = this.nameOf(caller)
      this.#callers.set(caller, name)
    }
    return name
  }

  /** The name of a key, which begins with the secret's name. @param caller made by `callerOf` */
  idOf(caller: string, row: string, key: string): string {
    this.#id.write(this.nameOf(caller, row, key), KEY_NAME_CHARS)
    // One flat text, because a concatenation would keep its parts in memory.
    return this.#id.toString('latin1')
  }

  /** @param salt of an existing file; default: a new one, so that no two writers count nonces under one key */
  sealOf(salt = randomBytes(SALT_BYTES).toString('base64url')): RecordSeal {
    const key = this.#derive(Buffer.from(salt, 'base64url'), 'countersign idempotency records')
    return new RecordSeal(key, salt)
  }

  #derive(salt: string | Uint8Array, info: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#secret, salt, info, 32))
  }
}

/** The first secret names keys that begin now, the others name keys that began before. */
export type KeySecrets = readonly [KeySecret, ...KeySecret[]]

/** @param lines at least one */
export function secretsOf([first = '', ...older]: readonly string[]): KeySecrets {
  return [new KeySecret(first), ...older.map((line) => new KeySecret(line))]
}

/** @param id made by `idOf` */
export function nameIn(id: string): string {
  return id.slice(0, KEY_NAME_CHARS)
}

export function secretNamed(secrets: KeySecrets, name: string): KeySecret | undefined {
  return secrets.find((secret) => secret.name === name)
}

/** AES-256-GCM under the key of one salt. Only one process seals, so the nonce is a counter. It precedes each sealed text. */
export class RecordSeal {
  /** In base64url. */
  readonly salt: string
  readonly #key: Buffer
  readonly #nonce = Buffer.alloc(NONCE_BYTES)
  #count = 0

  constructor(key: Buffer, salt: string) {
    this.#key = key
    this.salt = salt
  }

  /** @param text latin1 */
  seal(text: string): string {
    this.#nonce.writeUIntBE(++this.#count, NONCE_BYTES - COUNT_BYTES, COUNT_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, this.#nonce)
    const sealed = cipher.update(text, 'latin1')
    cipher.final()
    return Buffer.concat([this.#nonce, sealed, cipher.getAuthTag()]).toString('base64url')
  }

  /** @returns undefined when `seal` has not made the text */
  open(text: string): Buffer | undefined {
    const sealed = Buffer.from(text, 'base64url')
    if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
    try {
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
    } catch {
      return undefined
    }
  }
}
