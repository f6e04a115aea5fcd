import { isUtf8 } from 'node:buffer'
import { decodeBase64url } from './base64url.ts'
import { quote } from './quote.ts'
import { type TokenFault, tokenFault } from './token-fault.ts'
import type { Algorithm } from './verification-key.ts'

/** What a token says of itself; nothing of it is proved yet. */
export interface ParsedToken {
  readonly algorithm: Algorithm
  readonly kid: string
  readonly claims: JsonObject
}

export type JsonObject = Readonly<Record<string, unknown>>

/** Longer is no token; also the bound of what `Authorization` may carry. */
export const MAX_TOKEN_CHARS = 8 * 1024

const MAX_KID_CHARS = 256
const ALGORITHMS: ReadonlySet<unknown> = new Set<Algorithm>(['ES256', 'PS256', 'RS256', 'EdDSA'])
// RFC 9068 section 4: nothing but an access token, so that no ID token or logout token passes for one.
const TYPES: ReadonlySet<string> = new Set(['at+jwt', 'application/at+jwt'])
// Keys out of the token itself (RFC 8725 section 3.10), extensions we do not have (RFC 7515 section 4.1.11, RFC 7797),
// compression (RFC 8725 section 3.6).
const REFUSED_HEADER_MEMBERS = ['crit', 'jku', 'jwk', 'x5u', 'x5c', 'b64', 'zip']

export type TokenParsing =
  | { readonly token: ParsedToken; readonly fault?: never }
  | { readonly fault: TokenFault; readonly token?: never }

/**
 * Reads a JWT access token: a JWS in compact serialisation (RFC 7515 section 7.1) of at most 8 KiB, with the header
 * of RFC 9068 section 2.1, an algorithm on the list and a key named by `kid`. Its claims and signature are not checked
 * here. Faults are `malformed` (no such JWS) or `invalid` (one that is never accepted). Never throws.
 */
export function parseToken(text: string): TokenParsing {
  if (text.length > MAX_TOKEN_CHARS) return malformed(`longer than ${MAX_TOKEN_CHARS} characters`)
  const [header, payload, signature, ...more] = text.split('.', 4)
  if (header === undefined || payload === undefined || signature === undefined || more.length > 0) {
    return malformed('not three parts')
  }
  if (decodeBase64url(signature) === undefined) return malformed('the signature is not base64url')
  const members = decodeObject(header)
  if (typeof members === 'string') return malformed(`the header ${members}`)
  const claims = decodeObject(payload)
  if (typeof claims === 'string') return malformed(`the payload ${claims}`)
  const { alg, typ, kid } = members
  if (!isAlgorithm(alg)) return invalid(`alg ${quote(alg)} is not accepted`)
  if (typeof typ !== 'string' || !TYPES.has(typ.toLowerCase()))
    return invalid(`typ ${quote(typ)} is no access token`)
  const refused = REFUSED_HEADER_MEMBERS.find((name) => Object.hasOwn(members, name))
  if (refused !== undefined) return invalid(`the header has ${refused}`)
  if (typeof kid !== 'string' || kid === '' || kid.length > MAX_KID_CHARS)
    return invalid('the header names no key')
  return { token: { algorithm: alg, kid, claims } }
}

function isAlgorithm(alg: unknown): alg is Algorithm {
  return ALGORITHMS.has(alg)
}

/** The JSON object, or in words why it is none. */
function decodeObject(part: string): JsonObject | string {
  const bytes = decodeBase64url(part)
  if (bytes === undefined) return 'is not base64url'
  if (!isUtf8(bytes)) return 'is not UTF-8'
  const json = bytes.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    return 'is not JSON'
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'is not a JSON object'
  if (countMembers(json) !== Object.keys(value).length) return 'names a member twice'
  return value as JsonObject
}

/**
 * How many members the outermost object of a valid JSON text has as written. JSON.parse keeps the last of two with the
 * same name, where another reader may keep the first (RFC 8725 section 2.4), so fewer keys mean a name given twice.
 */
function countMembers(json: string): number {
  let members = 0
  let depth = 0
  for (let at = 0; at < json.length; at++) {
    switch (json[at]) {
      case '"':
        at = endOfString(json, at)
        break
      case '{':
      case '[':
        depth++
        break
      case '}':
      case ']':
        depth--
        break
      case ':':
        if (depth === 1) members++
    }
  }
  return members
}

function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at
}

function malformed(cause: string): TokenParsing {
  return { fault: tokenFault('malformed', cause) }
}

function invalid(cause: string): TokenParsing {
  return { fault: tokenFault('invalid', cause) }
}
