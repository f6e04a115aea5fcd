import { createPublicKey, verify } from 'node:crypto'
import { isKeyName, keyIdOf, NoteFault, type NoteVerifier } from './signed-note.ts'

/** A public key as C2SP signed-note writes it: `<name>+<key id>+<base64(type ‖ public key)>`. */
export interface VerifierKey {
  readonly name: string
  /** Eight hexadecimal digits. */
  readonly keyId: string
  /** What it signs and how; `ED25519` is the first. */
  readonly type: number
  readonly publicKey: Buffer
}

/** Signature type of a note's Ed25519 signatures. */
export const ED25519 = 0x01
const ED25519_KEY_BYTES = 32

export function verifierKey(name: string, type: number, publicKey: Buffer): VerifierKey {
  return { name, keyId: keyIdOf(name, type, publicKey), type, publicKey }
}

export function formatVerifierKey({ name, keyId, type, publicKey }: VerifierKey): string {
  return `${name}+${keyId}+${Buffer.concat([Buffer.of(type), publicKey]).toString('base64')}`
}

/** @throws NoteFault when it is none, or when its key id is not that of its key. */
export function parseVerifierKey(text: string): VerifierKey {
  const [name = '', keyId = '', ...rest] = text.trim().split('+')
  // Base64 may hold a plus itself.
  const base64 = rest.join('+')
  const bytes = Buffer.from(base64, 'base64')
  const [type] = bytes
  if (!isKeyName(name) || !/^[0-9a-f]{8}$/.test(keyId) || type === undefined) {
    throw new NoteFault('is no verifier key: <name>+<8 hexadecimal digits>+<base64>')
  }
  if (bytes.toString('base64') !== base64) throw new NoteFault('has a key that is not base64')
  const key = verifierKey(name, type, bytes.subarray(1))
  if (key.keyId !== keyId) throw new NoteFault(`has the key id ${keyId}, and its key has ${key.keyId}`)
  return key
}

/** @throws NoteFault when the key is of another kind. */
export function ed25519Verifier({ name, keyId, type, publicKey }: VerifierKey): NoteVerifier {
  if (type !== ED25519 || publicKey.length !== ED25519_KEY_BYTES) {
    throw new NoteFault(`is of signature type ${type}, and must be an Ed25519 key (type 1)`)
  }
  const key = ed25519PublicKey(publicKey)
  return { name, keyId, verify: (text, signature) => verify(null, text, key, signature) }
}

/** @param bytes the 32 bytes of RFC 8032. */
export function ed25519PublicKey(bytes: Buffer) {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }
  return createPublicKey({ format: 'jwk', key: jwk })
}
