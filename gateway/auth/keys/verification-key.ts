import { createPublicKey, type KeyObject, type webcrypto, X509Certificate } from 'node:crypto'
import { decodeBase64url, isJsonObject, type JsonObject } from '../tokens/jws.ts'
import { quote } from '../tokens/quote.ts'
import type { OrFault } from '../tokens/verification.ts'
import { type Algorithm, algorithmNamed, type SignatureCheck, signatureCheck } from './signature.ts'
import { jwkThumbprint } from './thumbprint.ts'

export interface VerificationKey {
  readonly kid: string
  /** One algorithm, but all of RSA for an RSA key without `alg`. */
  readonly algorithms: readonly Algorithm[]
  readonly key: KeyObject
  /** RFC 7638. */
  readonly thumbprint: string
  readonly checks: ReadonlyMap<Algorithm, SignatureCheck>
  /** The first certificate of `x5c` (RFC 7517 section 4.7), if it is of this key. */
  readonly certificate: X509Certificate | undefined
}

export const MAX_KID_CHARS = 256
const MIN_MODULUS_BITS = 2048
// Verification time grows with the square of the bits.
const MAX_MODULUS_BITS = 8192
const MIN_EXPONENT = 65_537n
// Verification time also grows with the bits of the exponent, of which OpenSSL allows 3,072.
const END_OF_EXPONENTS = 2n ** 64n
const COORDINATE_BYTES = 32
// RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2.
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

/** Reads a member of a JWK Set (RFC 7517, RFC 8725 section 3.1, FAPI 2.0 section 5.4.1). Never throws. */
export function readKey(jwk: unknown): OrFault<{ readonly key: VerificationKey }, string> {
  if (!isJsonObject(jwk)) return { fault: 'is not a JSON object' }
  const kid = kidOf(jwk)
  if (typeof kid !== 'string' || kid === '') return { fault: 'has no kid' }
  if (kid.length > MAX_KID_CHARS) return { fault: `has a kid of more than ${MAX_KID_CHARS} characters` }
  const algorithms = algorithmsOf(jwk)
  if (typeof algorithms === 'string') return { fault: algorithms }
  const key = importKey(jwk)
  if (typeof key === 'string') return { fault: key }
  const checks = new Map(algorithms.map((one) => [one, signatureCheck(key, one)]))
  const thumbprint = jwkThumbprint(key.export({ format: 'jwk' }) as JsonObject) ?? ''
  return { key: { kid, algorithms, key, thumbprint, checks, certificate: certificateOf(jwk, key) } }
}

function certificateOf({ x5c }: JsonObject, key: KeyObject): X509Certificate | undefined {
  if (!Array.isArray(x5c)) return undefined
  try {
    const certificate = new X509Certificate(Buffer.from(String(x5c[0]), 'base64'))
    return certificate.publicKey.equals(key) ? certificate : undefined
  } catch {
    return undefined
  }
}

/** The `kid` of a JWK, whatever its type; without a `kid`, the thumbprint of the JWK (RFC 7638). */
export function kidOf(jwk: unknown): unknown {
  if (!isJsonObject(jwk)) return undefined
  return jwk.kid === undefined ? jwkThumbprint(jwk) : jwk.kid
}

/** Finds the algorithms of a JWK without importing it. A text says why there are none. */
export function algorithmsOf(jwk: JsonObject): readonly Algorithm[] | string {
  const secret = PRIVATE_MEMBERS.find((name) => Object.hasOwn(jwk, name))
  if (secret !== undefined) return `publishes the private member "${secret}"`
  const purpose = faultOfPurpose(jwk)
  if (purpose !== undefined) return purpose
  const { kty, crv, alg } = jwk
  return (
    pinnedAlgorithms(jwk) ??
    `is of a kind not accepted: kty ${quote(kty)}, crv ${quote(crv)}, alg ${quote(alg)}`
  )
}

export function isSameKey(one: VerificationKey, other: VerificationKey): boolean {
  return (
    one.kid === other.kid &&
    one.key.equals(other.key) &&
    one.algorithms.join() === other.algorithms.join() &&
    one.certificate?.fingerprint256 === other.certificate?.fingerprint256
  )
}

function faultOfPurpose({ use, key_ops: operations }: JsonObject): string | undefined {
  if (use !== undefined && use !== 'sig') return `is not for signatures: its use is ${quote(use)}`
  if (operations === undefined) return undefined
  const verifies = Array.isArray(operations) && operations.includes('verify')
  return verifies ? undefined : `is not for verifying: its key_ops are ${quote(operations)}`
}

function pinnedAlgorithms({ kty, crv, alg }: JsonObject): readonly Algorithm[] | undefined {
  if (kty === 'EC' && crv === 'P-256' && (alg === undefined || alg === 'ES256')) return ['ES256']
  if (kty === 'OKP' && crv === 'Ed25519' && (alg === undefined || algorithmNamed(alg) === 'EdDSA'))
    return ['EdDSA']
  if (kty === 'RSA' && alg === undefined) return ['PS256', 'RS256', 'PS512']
  if (kty === 'RSA' && (alg === 'PS256' || alg === 'RS256' || alg === 'PS512')) return [alg]
  return undefined
}

/** Imports a JWK that `algorithmsOf` accepts. A text says why that fails. */
export function importKey({ kty, crv, x, y, n, e }: JsonObject): KeyObject | string {
  const numbers = kty === 'RSA' ? { n, e } : kty === 'EC' ? { x, y } : { x }
  for (const [name, text] of Object.entries(numbers)) {
    const bytes = typeof text === 'string' ? decodeBase64url(text) : undefined
    if (bytes === undefined) return `has no base64url member "${name}"`
    if (kty !== 'RSA' && bytes.length !== COORDINATE_BYTES)
      return `has a member "${name}" that is not 32 bytes long`
  }
  let key: KeyObject
  try {
    key = createPublicKey({ format: 'jwk', key: { kty, crv, ...numbers } as webcrypto.JsonWebKey })
  } catch (error) {
    return `does not import: ${String(error)}`
  }
  return kty === 'RSA' ? (faultOfRsa(key, n as string) ?? key) : key
}

function faultOfRsa(key: KeyObject, n: string): string | undefined {
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {}
  if (modulusLength < MIN_MODULUS_BITS || modulusLength > MAX_MODULUS_BITS) {
    return `has a modulus of ${modulusLength} bits, not ${MIN_MODULUS_BITS} to ${MAX_MODULUS_BITS}`
  }
  if (publicExponent < MIN_EXPONENT || publicExponent % 2n === 0n) {
    return `has the public exponent ${publicExponent}, not an odd one of at least ${MIN_EXPONENT}`
  }
  if (publicExponent >= END_OF_EXPONENTS) return 'has a public exponent of more than 64 bits'
  const modulus = BigInt(`0x${Buffer.from(n, 'base64url').toString('hex')}`)
  return isRocaModulus(modulus) ? 'has a modulus of the flawed generator of CVE-2017-15361' : undefined
}

const PRIMES = [
  3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107,
  109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
]
/** For each prime, the remainders that powers of 65537 leave. */
const MARKS: readonly (readonly [prime: bigint, remainders: ReadonlySet<number>])[] = PRIMES.map((prime) => [
  BigInt(prime),
  powersOf(65_537 % prime, prime),
])

/** A modulus of ROCA is a power of 65537 modulo each small prime. One sound modulus in 2^28 is refused, too. */
function isRocaModulus(modulus: bigint): boolean {
  return MARKS.every(([prime, remainders]) => remainders.has(Number(modulus % prime)))
}

function powersOf(base: number, prime: number): ReadonlySet<number> {
  const powers = new Set<number>()
  for (let power = 1; !powers.has(power); power = (power * base) % prime) powers.add(power)
  return powers
}
