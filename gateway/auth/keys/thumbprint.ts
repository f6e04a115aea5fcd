import { hash } from 'node:crypto'
import type { JsonObject } from '../tokens/jws.ts'

// The unused bits of the 43rd character are zero.
const THUMBPRINT = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/

/** In the order in which RFC 7638 section 3.2 hashes them. */
const REQUIRED_MEMBERS: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['EC', ['crv', 'kty', 'x', 'y']],
  ['OKP', ['crv', 'kty', 'x']],
  ['RSA', ['e', 'kty', 'n']],
])

export function isThumbprint(value: unknown): value is string {
  return typeof value === 'string' && THUMBPRINT.test(value)
}

/** SHA-256 thumbprint of a JWK (RFC 7638 section 3, RFC 8037 section 2); undefined if a member is missing. */
export function jwkThumbprint(jwk: JsonObject): string | undefined {
  const names = REQUIRED_MEMBERS.get(jwk.kty)
  if (names === undefined || !names.every((name) => typeof jwk[name] === 'string')) return undefined
  return sha256(JSON.stringify(jwk, names as string[]))
}

export function sha256(data: string | Uint8Array): string {
  return hash('sha256', data, 'base64url')
}
