import { constants, type KeyObject } from 'node:crypto'
import { type Der, expectTag, membersIn, oidOf, readDer, TAG } from '../../asn1/der-elements.ts'

/** How an RSASSA-PSS signature was made: the hash, of which its mask is too, and the salt. */
export interface PssParameters {
  readonly hash: string
  readonly saltBytes: number
}

const MGF1 = '1.2.840.113549.1.1.8'
const HASHES: ReadonlyMap<string, string> = new Map([
  ['1.3.14.3.2.26', 'sha1'],
  ['2.16.840.1.101.3.4.2.1', 'sha256'],
  ['2.16.840.1.101.3.4.2.2', 'sha384'],
  ['2.16.840.1.101.3.4.2.3', 'sha512'],
])
/** The tags of the fields, which stand in this order; each may be left out. */
const FIELD = { hash: 0xa0, mask: 0xa1, salt: 0xa2, trailer: 0xa3 } as const
/** Of SHA-1, which RFC 4055 takes where nothing is said. */
const DEFAULT_SALT_BYTES = 20
/** More than the modulus of any key has room for. */
const MAX_SALT_DIGITS = 2

/**
 * Reads the parameters of an algorithm identifier for RSASSA-PSS (RFC 4055 section 3.1).
 *
 * @param algorithm its DER
 * @throws Error that says which of them `node:crypto` cannot verify with, or that they are not DER
 */
export function readPssParameters(algorithm: Buffer): PssParameters {
  const [, parameters, ...rest] = membersIn(readDer(algorithm), TAG.sequence)
  if (parameters === undefined || rest.length > 0) throw new Error('they are missing')
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
  return { hash, saltBytes: salt === undefined ? DEFAULT_SALT_BYTES : numberIn(salt) }
}

/** The key, to verify such a signature with. @throws Error when it is not an RSA key: for other keys `verify` ignores the padding */
export function withPss(key: KeyObject, { saltBytes }: PssParameters) {
  if (key.asymmetricKeyType !== 'rsa' && key.asymmetricKeyType !== 'rsa-pss') throw new Error('not of RSA')
  return { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: saltBytes }
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
  if (content.length === 0 || content.length > MAX_SALT_DIGITS || isNegative)
    throw new Error('a number is out of range')
  return content.readUIntBE(0, content.length)
}
