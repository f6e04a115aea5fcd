import { constants, type KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import { type Der, expectTag, membersIn, oidOf, readDer, TAG } from './der.ts'

/** The algorithm of a signature, as its AlgorithmIdentifier says (RFC 5280 section 4.1.1.2). */
export interface SignatureAlgorithm {
  /** Its object identifier, or its name. */
  readonly name: string
  /** Undefined: the algorithm is not accepted. */
  readonly verifies?: (key: KeyObject, data: Buffer, signature: Buffer) => boolean
}

export const SHA_1 = '1.3.14.3.2.26'
export const SHA_256 = '2.16.840.1.101.3.4.2.1'
/** Hashes by their object identifiers. No signature is accepted with SHA-1. */
export const HASHES: ReadonlyMap<string, string> = new Map([
  [SHA_1, 'sha1'],
  [SHA_256, 'sha256'],
  ['2.16.840.1.101.3.4.2.2', 'sha384'],
  ['2.16.840.1.101.3.4.2.3', 'sha512'],
])
/** Hashes by the identifier of the signature algorithm. Null: the algorithm has a hash of its own. */
const SIGNATURES: ReadonlyMap<string, string | null> = new Map([
  ['1.2.840.113549.1.1.11', 'sha256'],
  ['1.2.840.113549.1.1.12', 'sha384'],
  ['1.2.840.113549.1.1.13', 'sha512'],
  ['1.2.840.10045.4.3.2', 'sha256'],
  ['1.2.840.10045.4.3.3', 'sha384'],
  ['1.2.840.10045.4.3.4', 'sha512'],
  ['1.3.101.112', null],
])
/** `rsaEncryption`, which names no hash. */
const RSA = '1.2.840.113549.1.1.1'
const PSS = '1.2.840.113549.1.1.10'
const MGF1 = '1.2.840.113549.1.1.8'
/** Tags of the parameters of RSASSA-PSS, in order. Each may be missing. */
const FIELD = { hash: 0xa0, mask: 0xa1, salt: 0xa2, trailer: 0xa3 } as const
/** RFC 4055. */
const DEFAULT_SALT_BYTES = 20
/** Two bytes can name a salt longer than any modulus. */
const MAX_NUMBER_BYTES = 2

/**
 * @param contentHash the hash of a signature whose algorithm is RSA alone, as in CMS (RFC 3370 section 3.2)
 * @throws Error when it is not DER, or has parameters of RSASSA-PSS that `node:crypto` cannot verify with
 */
export function readSignatureAlgorithm(algorithm: Der | undefined, contentHash?: string): SignatureAlgorithm {
  const [oid, parameters, ...rest] = membersIn(algorithm, TAG.sequence)
  const name = oidOf(oid)
  if (name === PSS) return pssAlgorithm(rest.length > 0 ? undefined : parameters)
  const hash = name === RSA ? contentHash : SIGNATURES.get(name)
  if (hash === undefined) return { name }
  return { name, verifies: (key, data, signature) => isSigned(hash, data, key, signature) }
}

/** @returns false also when the key does not fit the algorithm */
function isSigned(
  hash: string | null,
  data: Buffer,
  key: KeyObject | VerifyKeyObjectInput,
  signature: Buffer,
): boolean {
  try {
    return verify(hash, data, key, signature)
  } catch {
    return false
  }
}

/** RSASSA-PSS (RFC 4055 section 3.1). Mask and signature must have the same hash, as `node:crypto` demands. */
function pssAlgorithm(parameters: Der | undefined): SignatureAlgorithm {
  const { hash, saltLength } = pssParameters(parameters)
  if (hash === 'sha1') return { name: 'RSASSA-PSS with SHA-1' }
  const options = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength }
  return {
    name: 'RSASSA-PSS',
    verifies: (key, data, signature) =>
      // For other keys `verify` ignores the padding.
      key.asymmetricKeyType?.startsWith('rsa') === true &&
      isSigned(hash, data, { key, ...options }, signature),
  }
}

function pssParameters(parameters: Der | undefined): { readonly hash: string; readonly saltLength: number } {
  try {
    const fields = new Map<number, Der>()
    let last = 0
    for (const field of membersIn(parameters, TAG.sequence)) {
      if (field.tag <= last || field.tag < FIELD.hash || field.tag > FIELD.trailer)
        throw new Error('there is an unknown field')
      last = field.tag
      fields.set(field.tag, readDer(field.content))
    }
    const hash = hashOf(fields.get(FIELD.hash))
    const maskHash = maskHashOf(fields.get(FIELD.mask))
    if (maskHash !== hash) throw new Error(`the hash is ${hash}, but that of the mask is ${maskHash}`)
    const trailer = fields.get(FIELD.trailer)
    if (trailer !== undefined && numberIn(trailer) !== 1) throw new Error('the trailer is not 1')
    const salt = fields.get(FIELD.salt)
    return { hash, saltLength: salt === undefined ? DEFAULT_SALT_BYTES : numberIn(salt) }
  } catch (error) {
    const { message } = error as Error
    throw new Error(`it is signed by RSASSA-PSS with parameters that are not supported: ${message}`)
  }
}

function hashOf(algorithm: Der | undefined): string {
  if (algorithm === undefined) return 'sha1'
  const [oid, nothing, ...rest] = membersIn(algorithm, TAG.sequence)
  const name = oidOf(oid)
  const hash = HASHES.get(name)
  if (hash === undefined) throw new Error(`the hash ${name} is not known`)
  if (rest.length > 0 || (nothing !== undefined && nothing.tag !== TAG.null))
    throw new Error('the hash has parameters')
  return hash
}

function maskHashOf(mask: Der | undefined): string {
  if (mask === undefined) return 'sha1'
  const [oid, hash, ...rest] = membersIn(mask, TAG.sequence)
  if (oidOf(oid) !== MGF1) throw new Error(`the mask ${oidOf(oid)} is not known`)
  if (rest.length > 0) throw new Error('the mask has an unknown field')
  return hashOf(hash)
}

function numberIn(number: Der): number {
  const { content } = expectTag(number, TAG.integer)
  const isNegative = (content[0] ?? 0) >= 0x80
  if (content.length === 0 || content.length > MAX_NUMBER_BYTES || isNegative)
    throw new Error('a number is out of range')
  return content.readUIntBE(0, content.length)
}
