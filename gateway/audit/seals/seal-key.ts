import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { OWNER_ONLY, syncDirectory } from '../../storage/line-file.ts'
import { makeDirectory } from '../../storage/make-directory.ts'
import { type Checkpoint, checkpointText } from './checkpoint.ts'
import { formatNote } from './signed-note.ts'
import { ED25519, type VerifierKey, verifierKey } from './verifier-key.ts'

/** The key that seals the trail: Ed25519, PEM PKCS#8 (RFC 8410), for its owner only. */
export interface SealKey {
  /** Name of the log, and of the key in its signatures. */
  readonly origin: string
  readonly verifier: VerifierKey
  /** @returns the checkpoint as a signed note, as it stands in its file. */
  seal(checkpoint: Omit<Checkpoint, 'origin'>): string
}

/** Hexadecimal digits of the key's hash in the origin that is made from it. */
const ORIGIN_DIGITS = 16

/** The name of a log that was given none: made from the 32 bytes of its public key. */
export function originOf(publicKey: Uint8Array): string {
  return `countersign/${createHash('sha256').update(publicKey).digest('hex').slice(0, ORIGIN_DIGITS)}`
}

/**
 * Makes a key file, mode 0600, with its directory.
 *
 * @returns false when there is a file of that name, which is left as it is.
 * @throws Error that names the file.
 */
export function makeSealKey(file: string): boolean {
  const { privateKey } = generateKeyPairSync('ed25519')
  let fd: number
  try {
    makeDirectory(dirname(file))
    fd = openSync(file, 'wx', OWNER_ONLY)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw unusable(file, error)
  }
  try {
    writeFileSync(fd, privateKey.export({ format: 'pem', type: 'pkcs8' }))
    fsyncSync(fd)
    syncDirectory(dirname(file))
    return true
  } catch (error) {
    rmSync(file, { force: true })
    throw unusable(file, error)
  } finally {
    closeSync(fd)
  }
}

/** @throws Error that names the file, when it cannot be read or is no Ed25519 private key. */
export function readKeyFile(file: string): KeyObject {
  let pem: Buffer
  try {
    pem = readFileSync(file)
  } catch (error) {
    throw unusable(file, error)
  }
  return privateKeyIn(file, pem)
}

/**
 * @param origin of the log, when it is not made from the key.
 * @throws Error that names the file, as `readKeyFile`.
 */
export function readSealKey(file: string, origin?: string): SealKey {
  return sealKeyOf(readKeyFile(file), origin)
}

/**
 * @param key an Ed25519 private key.
 * @param origin of the log, when it is not made from the key.
 */
export function sealKeyOf(key: KeyObject, origin?: string): SealKey {
  const publicKey = rawPublicKey(createPublicKey(key))
  const name = origin ?? originOf(publicKey)
  const verifier = verifierKey(name, ED25519, publicKey)
  return {
    origin: name,
    verifier,
    seal(checkpoint) {
      const text = checkpointText({ origin: name, ...checkpoint })
      const signature = sign(null, Buffer.from(text), key)
      return formatNote({ text, signatures: [{ name, keyId: verifier.keyId, signature }] })
    },
  }
}

/** The 32 bytes of RFC 8032. @param key an Ed25519 public key. */
export function rawPublicKey(key: KeyObject): Buffer {
  return Buffer.from(String(key.export({ format: 'jwk' }).x), 'base64url')
}

function privateKeyIn(file: string, pem: Buffer): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    throw unusable(file, new Error(`it holds ${whatIs(pem)}, and must hold an Ed25519 private key in PEM`))
  }
  const kind = key.asymmetricKeyType
  if (kind === 'ed25519') return key
  throw unusable(file, new Error(`it holds a private key of the kind ${kind}, and must hold one of Ed25519`))
}

/** The label of a PEM file (RFC 7468), which is no secret. */
function whatIs(pem: Buffer): string {
  const [, label] = /^-----BEGIN ([A-Z0-9 ]{1,40})-----/m.exec(pem.toString('latin1')) ?? []
  if (label === undefined) return 'no PEM'
  return label === 'ENCRYPTED PRIVATE KEY'
    ? 'an encrypted key'
    : `a ${label.toLowerCase()} that cannot be read`
}

function unusable(file: string, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new Error(`seal key ${file} cannot be used: ${reason}`, { cause })
}
