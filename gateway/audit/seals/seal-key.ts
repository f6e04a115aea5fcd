import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  type KeyObject,
  sign,
} from 'node:crypto'
import { existsSync } from 'node:fs'
import { format, parse } from 'node:path'
import { shownName, whyUnreadable } from '../../config/load-file.ts'
import { readRegularFile } from '../../storage/regular-file.ts'
import { makeOnce } from '../../storage/secret-file.ts'
import { type Checkpoint, checkpointText } from './checkpoint.ts'
import { COSIGNATURE_ML_DSA_44, cosignMlDsa44, rawMlDsa44Key } from './cosignature.ts'
import { ED25519, formatNote, type NoteSignature, type VerifierKey, verifierKey } from './signed-note.ts'

export interface SealKey {
  readonly origin: string
  readonly verifier: VerifierKey
  readonly mlDsaVerifier: VerifierKey | undefined
  seal(checkpoint: Omit<Checkpoint, 'origin'>): string
}

/** Keys of a log: Ed25519 (RFC 8410), and optionally ML-DSA-44 (RFC 9881) against quantum computers. */
export type PrivateSealKeys = { readonly ed25519: KeyObject; readonly mlDsa44: KeyObject | undefined }

const ML_DSA_44 = 'ml-dsa-44'
const KINDS = { ed25519: 'an Ed25519', [ML_DSA_44]: 'an ML-DSA-44' }
type Kind = keyof typeof KINDS

const ORIGIN_DIGITS = 16

/** Makes the file of an Ed25519 key, mode 0600. @returns false when it exists */
export function makeSealKey(file: string): boolean {
  return makeKeyFile(file, generateKeyPairSync('ed25519').privateKey)
}

/** @returns the path; undefined when the file exists @throws also when this Node has no ML-DSA */
export function makeMlDsaKey(sealKeyFile: string): string | undefined {
  const file = mlDsaKeyFile(sealKeyFile)
  if (existsSync(file)) return undefined
  let privateKey: KeyObject
  try {
    ;({ privateKey } = generateKeyPairSync(ML_DSA_44))
  } catch (cause) {
    const { openssl } = process.versions
    throw new Error(`${file} cannot be made: ML-DSA needs OpenSSL 3.5, and this Node has ${openssl}`, {
      cause,
    })
  }
  return makeKeyFile(file, privateKey) ? file : undefined
}

/** `audit-seal-key-ml-dsa-44.pem` for `audit-seal-key.pem`. */
export function mlDsaKeyFile(sealKeyFile: string): string {
  const { dir, name, ext } = parse(sealKeyFile)
  return format({ dir, name: `${name}-${ML_DSA_44}`, ext })
}

function makeKeyFile(file: string, privateKey: KeyObject): boolean {
  return naming(file, () => makeOnce(file, privateKey.export({ format: 'pem', type: 'pkcs8' })))
}

/** @param withSecond also the ML-DSA-44 key @throws Error that names the file */
export function readKeyFiles(file: string, withSecond = existsSync(mlDsaKeyFile(file))): PrivateSealKeys {
  return {
    ed25519: readKeyFile(file, 'ed25519'),
    mlDsa44: withSecond ? readKeyFile(mlDsaKeyFile(file), ML_DSA_44) : undefined,
  }
}

function readKeyFile(file: string, kind: Kind): KeyObject {
  const pem = naming(file, () => readRegularFile(file))
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    throw unusable(file, `it holds ${whatIs(pem)}, but must hold ${KINDS[kind]} private key in PEM`)
  }
  const { asymmetricKeyType: found } = key
  if (found === kind) return key
  throw unusable(file, `it holds a private key of the kind ${found}, but must hold ${KINDS[kind]} key`)
}

/** @param origin default: made from the key @throws as `readKeyFiles` */
export function readSealKey(file: string, origin?: string): SealKey {
  return sealKeyOf(readKeyFiles(file), origin)
}

export function sealKeyOf({ ed25519, mlDsa44 }: PrivateSealKeys, origin?: string): SealKey {
  const publicKey = rawPublicKey(createPublicKey(ed25519))
  const name = origin ?? `countersign/${hash('sha256', publicKey).slice(0, ORIGIN_DIGITS)}`
  const verifier = verifierKey(name, ED25519, publicKey)
  const second = mlDsa44 && {
    key: mlDsa44,
    verifier: verifierKey(name, COSIGNATURE_ML_DSA_44, rawMlDsa44Key(createPublicKey(mlDsa44))),
  }
  return {
    origin: name,
    verifier,
    mlDsaVerifier: second?.verifier,
    seal(checkpoint) {
      const text = checkpointText({ origin: name, ...checkpoint })
      const first = sign(null, Buffer.from(text), ed25519)
      const signatures: NoteSignature[] = [{ name, keyId: verifier.keyId, signature: first }]
      if (second !== undefined) {
        const signature = cosignMlDsa44(name, text, second.key, Date.now())
        signatures.push({ name, keyId: second.verifier.keyId, signature })
      }
      return formatNote({ text, signatures })
    },
  }
}

/** The 32 bytes of RFC 8032. */
export function rawPublicKey(key: KeyObject): Buffer {
  return Buffer.from(String(key.export({ format: 'jwk' }).x), 'base64url')
}

/** The label of a PEM file (RFC 7468), which is no secret. */
function whatIs(pem: Buffer): string {
  const [, label] = /^-----BEGIN ([A-Z0-9 ]{1,40})-----/m.exec(pem.toString('latin1')) ?? []
  if (label === undefined) return 'no PEM'
  return label === 'ENCRYPTED PRIVATE KEY'
    ? 'an encrypted key'
    : `a ${label.toLowerCase()} that cannot be read`
}

function naming<T>(file: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw unusable(file, error)
  }
}

function unusable(file: string, cause: unknown): Error {
  return new Error(`seal key ${shownName(file)} cannot be used: ${whyUnreadable(cause)}`, { cause })
}
