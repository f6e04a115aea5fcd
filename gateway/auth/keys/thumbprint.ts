import { hash } from 'node:crypto'
import type { JsonObject } from '../tokens/jws.ts'

// 32 bytes in canonical form: the unused bits of the 43rd character are zero.
const THUMBPRINT = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/

/** The members that identify a key, in the order in which RFC 7638 section 3.2 hashes them. */
const REQUIRED_MEMBERS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['EC', ['crv', 'kty', 'x', 'y']],
  ['OKP', ['crv', 'kty', 'x']],
  ['RSA', ['e', 'kty', 'n']],
])

/** Whether a value is a SHA-256 hash as base64url writes it. */
export function isThumbprint(value: unknown): value is string {
  return typeof value === 'string' && THUMBPRINT.test(value)
}

/**
 * The SHA-256 thumbprint of a JWK (RFC 7638 section 3, RFC 8037 section 2) in base64url: what `cnf.jkt` names. Other
 * members do not matter.
 *
 * @returns undefined for a JWK of another kind or without the members of its kind
 */
export function jwkThumbprint(jwk: JsonObject): string | undefined {
  const names = REQUIRED_MEMBERS.get(jwk.kty)
  if (names === undefined || !names.every((name) => typeof jwk[name] === 'string')) return undefined
  return sha256(JSON.stringify(jwk, names as string[]))
}

/** SHA-256 in base64url. */
export function sha256(data: string | Uint8Array): string {
  return hash('sha256', data, 'base64url')
}
