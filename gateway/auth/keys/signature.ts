import { constants, type KeyObject, sign, type VerifyKeyObjectInput, verify } from 'node:crypto'

/** RFC 7518 section 3.1, RFC 8037. PS512 is for messages alone, as rsa-pss-sha512 (RFC 9421 section 3.3.1). */
export type Algorithm = 'ES256' | 'PS256' | 'RS256' | 'EdDSA' | 'PS512'

/** Reads the `alg` of a token. `Ed25519` (RFC 9864) is EdDSA here, because no other curve is accepted. */
export function algorithmNamed(alg: unknown): Algorithm | undefined {
  if (alg === 'Ed25519') return 'EdDSA'
  return typeof alg === 'string' && alg !== 'PS512' && Object.hasOwn(FORMS, alg)
    ? (alg as Algorithm)
    : undefined
}

export interface Signed {
  /** One character for each octet. */
  readonly signed: string
  readonly signature: Buffer
}

interface Form {
  readonly keyType: string
  /** Null: the algorithm has a hash of its own. */
  readonly hash: string | null
  readonly options: Omit<VerifyKeyObjectInput, 'key'>
}

const PSS = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }

/** OpenSSL's options (RFC 7518 sections 3.3 to 3.5, RFC 8037 section 3.1). */
const FORMS: Readonly<Record<Algorithm, Form>> = {
  ES256: { keyType: 'ec', hash: 'sha256', options: { dsaEncoding: 'ieee-p1363' } },
  PS256: { keyType: 'rsa', hash: 'sha256', options: PSS },
  PS512: { keyType: 'rsa', hash: 'sha512', options: PSS },
  RS256: { keyType: 'rsa', hash: 'sha256', options: { padding: constants.RSA_PKCS1_PADDING } },
  EdDSA: { keyType: 'ed25519', hash: null, options: {} },
}

/** Never throws. */
export type SignatureCheck = (jws: Signed) => boolean

/** A key of another kind verifies nothing. OpenSSL would verify RSA with a default hash where `hash` is null. */
export function signatureCheck(key: KeyObject, algorithm: Algorithm): SignatureCheck {
  const { keyType, hash, options } = FORMS[algorithm]
  if (key.asymmetricKeyType !== keyType) return () => false
  const input = { key, ...options }
  const { modulusLength } = key.asymmetricKeyDetails ?? {}
  const bytes = modulusLength && Math.ceil(modulusLength / 8)
  return ({ signed, signature }) => {
    // OpenSSL accepts a PSS signature without leading zeros: a replay could look new (RFC 8017 section 8.1.2, step 1).
    if (bytes !== undefined && signature.length !== bytes) return false
    try {
      return verify(hash, Buffer.from(signed, 'latin1'), input, signature)
    } catch {
      return false
    }
  }
}

/** @param key private, of the kind of the algorithm */
export function signatureMaker(key: KeyObject, algorithm: Algorithm): (text: string) => Buffer {
  const { hash, options } = FORMS[algorithm]
  const input = { key, ...options }
  return (text) => sign(hash, Buffer.from(text, 'latin1'), input)
}
