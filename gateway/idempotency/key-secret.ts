import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto'

const NONCE_BYTES = 12
const COUNT_BYTES = 6
const TAG_BYTES = 16
export const SALT_BYTES = 32
/** 132 bits. */
const NAME_CHARS = 22

/** The secret of `idempotencyKeyFile`: names callers and keys, and makes the key of each file (HKDF, RFC 5869). */
export class KeySecret {
  readonly #secret: string
  readonly #names: Buffer

  constructor(secret: string) {
    this.#secret = secret
    this.#names = this.#derive('', 'countersign idempotency names')
  }

  /** HMAC-SHA-256 of all parts together: 22 characters of base64url. */
  nameOf(...parts: readonly (string | Uint8Array)[]): string {
    const hmac = createHmac('sha256', this.#names)
    for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
    return hmac.digest('base64url').slice(0, NAME_CHARS)
  }

  /** @param caller made by `nameOf` */
  idOf(caller: string, row: string, key: string): string {
    return this.nameOf(caller, row, key)
  }

  sealOf(salt: Uint8Array): RecordSeal {
    return new RecordSeal(this.#derive(salt, 'countersign idempotency records'))
  }

  #derive(salt: string | Uint8Array, info: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#secret, salt, info, 32))
  }
}

/** AES-256-GCM under the key of one file, which one process writes, with a counter as nonce before each record. */
export class RecordSeal {
  readonly #key: Buffer
  #count = 0

  constructor(key: Buffer) {
    this.#key = key
  }

  /** @param clear stands beside the record, and is authenticated with it */
  seal(clear: string, ...parts: readonly Uint8Array[]): string {
    const nonce = Buffer.alloc(NONCE_BYTES)
    nonce.writeUIntBE(++this.#count, NONCE_BYTES - COUNT_BYTES, COUNT_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(clear))
    const sealed = [nonce, ...parts.map((part) => cipher.update(part)), cipher.final(), cipher.getAuthTag()]
    return Buffer.concat(sealed).toString('base64url')
  }

  /** Undefined when it is not what `seal` has made with `clear`. */
  open(clear: string, text: string): Buffer | undefined {
    const sealed = Buffer.from(text, 'base64url')
    if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(Buffer.from(clear)).setAuthTag(sealed.subarray(-TAG_BYTES))
    try {
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
    } catch {
      return undefined
    }
  }
}
