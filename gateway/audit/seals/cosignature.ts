import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { parseCheckpoint } from './checkpoint.ts'
import {
  ED25519_KEY_BYTES,
  ed25519PublicKey,
  NoteFault,
  type NoteVerifier,
  type VerifierKey,
} from './signed-note.ts'

const COSIGNATURE_ED25519 = 0x04
export const COSIGNATURE_ML_DSA_44 = 0x06
const TIME_BYTES = 8
/** Last second that a `Date` can have. */
const LAST_TIMESTAMP = 8_640_000_000_000n
const ML_DSA_44_KEY_BYTES = 1312
/** DER before the key: SEQUENCE, the algorithm 2.16.840.1.101.3.4.3.17, BIT STRING (RFC 9881). */
const ML_DSA_44_SPKI = Buffer.from('30820532300b06096086480165030403110382052100', 'hex')
const SUBTREE_LABEL = Buffer.from('subtree/v1\n\0')

/** A cosignature says that the tree continues those that the witness saw. @throws NoteFault for another type of key */
export function cosignatureVerifier({ name, keyId, type, publicKey }: VerifierKey): NoteVerifier {
  if (type === COSIGNATURE_ED25519 && publicKey.length === ED25519_KEY_BYTES) {
    const key = ed25519PublicKey(publicKey)
    return { name, keyId, verify: (text, signature) => verifyTimed(key, signature, ed25519Message(text)) }
  }
  if (type === COSIGNATURE_ML_DSA_44 && publicKey.length === ML_DSA_44_KEY_BYTES) {
    const spki = Buffer.concat([ML_DSA_44_SPKI, publicKey])
    const key = createPublicKey({ key: spki, format: 'der', type: 'spki' })
    return { name, keyId, verify: (text, signature) => verifyTimed(key, signature, mlDsaMessage(name, text)) }
  }
  throw new NoteFault(`is of signature type ${type}, but must be the key of a witness (type 4 or 6)`)
}

/** Makes a cosignature by the log itself (C2SP tlog-checkpoint). */
export function cosignMlDsa44(name: string, text: string, key: KeyObject, nowMs: number): Buffer {
  const timestamp = BigInt(Math.max(1, Math.floor(nowMs / 1000)))
  const message = mlDsaMessage(name, Buffer.from(text))(timestamp)
  return Buffer.concat([uint64(timestamp), sign(null, message, key)])
}

/** The 1312 bytes of the key (FIPS 204). */
export function rawMlDsa44Key(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(ML_DSA_44_SPKI.length)
}

export function cosignedAtMs(signature: Buffer): number {
  return Number(signature.readBigUInt64BE()) * 1000
}

type Message = (timestamp: bigint) => Buffer

function verifyTimed(key: KeyObject, signature: Buffer, message: Message): boolean {
  if (signature.length <= TIME_BYTES) return false
  const timestamp = signature.readBigUInt64BE()
  // At time 0 the cosigner does not claim that this is the largest tree it has seen.
  if (timestamp === 0n || timestamp > LAST_TIMESTAMP) return false
  return verify(null, message(timestamp), key, signature.subarray(TIME_BYTES))
}

function ed25519Message(text: Buffer): Message {
  return (timestamp) => Buffer.concat([Buffer.from(`cosignature/v1\ntime ${timestamp}\n`), text])
}

function mlDsaMessage(name: string, text: Buffer): Message {
  const { origin, size, root } = parseCheckpoint(text.toString())
  return (timestamp) =>
    Buffer.concat([
      SUBTREE_LABEL,
      withLength(name),
      uint64(timestamp),
      withLength(origin),
      uint64(0n),
      uint64(BigInt(size)),
      root,
    ])
}

function withLength(text: string): Buffer {
  const bytes = Buffer.from(text)
  return Buffer.concat([Buffer.of(bytes.length), bytes])
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  return bytes
}
