import { constants, type KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import type { Algorithm } from '../keys/verification-key.ts'

/** OpenSSL's options for each algorithm: RFC 7518 sections 3.4 and 3.5, RFC 8037 section 3.1. */
const FORMS: Readonly<
  Record<ProofAlgorithm, { hash: string | null; form: Omit<VerifyKeyObjectInput, 'key'> }>
> = {
  ES256: { hash: 'sha256', form: { dsaEncoding: 'ieee-p1363' } },
  PS256: {
    hash: 'sha256',
    form: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST },
  },
  EdDSA: { hash: null, form: {} },
}

/** The algorithms allowed for proofs. FAPI 2.0 section 5.4.1: no RS256. */
export type ProofAlgorithm = Exclude<Algorithm, 'RS256'>

/** The same, as challenges list them. */
export const PROOF_ALGORITHMS: readonly ProofAlgorithm[] = ['ES256', 'PS256', 'EdDSA']

/**
 * Whether the key, which must fit the algorithm, signed this compact JWS. Every request has a new proof, so this calls
 * OpenSSL directly: synchronous and at half the cost of the library that verifies tokens. Never throws.
 */
export function isProofSignedBy(key: KeyObject, algorithm: ProofAlgorithm, jws: string): boolean {
  const dot = jws.lastIndexOf('.')
  const signature = Buffer.from(jws.slice(dot + 1), 'base64url')
  const { hash, form } = FORMS[algorithm]
  try {
    return verify(hash, Buffer.from(jws.slice(0, dot), 'latin1'), { key, ...form }, signature)
  } catch {
    return false
  }
}
