import type { Algorithm } from '../keys/verification-key.ts'
import { type JsonObject, parseJws } from './jws.ts'
import { quote } from './quote.ts'
import { type TokenFault, tokenFault } from './token-fault.ts'

/** What a token says of itself; nothing of it is proved yet. */
export interface ParsedToken {
  readonly algorithm: Algorithm
  readonly kid: string
  readonly claims: JsonObject
}

/** Longer is no token; also the bound of what `Authorization` may carry. */
export const MAX_TOKEN_CHARS = 8 * 1024

const MAX_KID_CHARS = 256
const ALGORITHMS: ReadonlySet<unknown> = new Set<Algorithm>(['ES256', 'PS256', 'RS256', 'EdDSA'])
// RFC 9068 section 4: nothing but an access token, so that no ID token or logout token passes for one.
const TYPES: ReadonlySet<string> = new Set(['at+jwt', 'application/at+jwt'])
// Keys out of the token itself (RFC 8725 section 3.10), extensions we do not have (RFC 7515 section 4.1.11, RFC 7797),
// compression (RFC 8725 section 3.6).
export const REFUSED_HEADER_MEMBERS = ['crit', 'jku', 'jwk', 'x5u', 'x5c', 'b64', 'zip']

export type TokenParsing =
  | { readonly token: ParsedToken; readonly fault?: never }
  | { readonly fault: TokenFault; readonly token?: never }

/**
 * Reads a JWT access token: a JWS of at most 8 KiB with the header of RFC 9068 section 2.1, an algorithm on the list
 * and a key named by `kid`. Its claims and signature are not checked here. Faults are `malformed` (no such JWS) or
 * `invalid` (one that is never accepted). Never throws.
 */
export function parseToken(text: string): TokenParsing {
  if (text.length > MAX_TOKEN_CHARS) return malformed(`longer than ${MAX_TOKEN_CHARS} characters`)
  const jws = parseJws(text)
  if (typeof jws === 'string') return malformed(jws)
  const { header, payload } = jws
  const { alg, typ, kid } = header
  if (!isAlgorithm(alg)) return invalid(`alg ${quote(alg)} is not accepted`)
  if (typeof typ !== 'string' || !TYPES.has(typ.toLowerCase()))
    return invalid(`typ ${quote(typ)} is no access token`)
  const refused = REFUSED_HEADER_MEMBERS.find((name) => Object.hasOwn(header, name))
  if (refused !== undefined) return invalid(`the header has ${refused}`)
  if (typeof kid !== 'string' || kid === '' || kid.length > MAX_KID_CHARS)
    return invalid('the header names no key')
  return { token: { algorithm: alg, kid, claims: payload } }
}

function isAlgorithm(alg: unknown): alg is Algorithm {
  return ALGORITHMS.has(alg)
}

function malformed(cause: string): TokenParsing {
  return { fault: tokenFault('malformed', cause) }
}

function invalid(cause: string): TokenParsing {
  return { fault: tokenFault('invalid', cause) }
}
