import { typeName } from '../../config/issuers/token-dialects.ts'
import { memberIn } from '../../edge/bodies/exact-json.ts'
import { ownText } from '../../edge/syntax/characters.ts'
import { type Algorithm, algorithmNamed } from '../keys/signature.ts'
import { MAX_KID_CHARS } from '../keys/verification-key.ts'
import { decodeObject, type JsonObject, type Jws, parseJws } from './jws.ts'
import { quote } from './quote.ts'
import { invalid, type OrFault, tokenFault } from './verification.ts'

export interface ParsedToken {
  readonly algorithm: Algorithm
  readonly kid: string | undefined
  /** As `typeName` makes it; empty without `typ`. */
  readonly type: string
  readonly claims: JsonObject
  readonly jws: Jws
}

const OPAQUE = 'it is no JWT, and an opaque token needs an issuer with "introspection"'
const MAX_KNOWN_HEADERS = 64
const MAX_KNOWN_HEADER_CHARS = 512
// Members for keys, extensions or compression (RFC 8725 sections 3.6 and 3.10, RFC 7515 section 4.1.11, RFC 7797).
export const REFUSED_HEADER_MEMBERS = ['crit', 'jku', 'jwk', 'x5u', 'x5c', 'b64', 'zip']

/** Reads a JWT with an accepted algorithm. Never throws. */
export function parseToken(text: string): OrFault<{ readonly token: ParsedToken }> {
  const jws = parseJws(text, readHeader)
  if (typeof jws === 'string')
    return { fault: tokenFault('malformed', text.split('.').length === 3 ? jws : `${jws}: ${OPAQUE}`) }
  const { header } = jws
  const { alg, typ, kid } = header
  const algorithm = algorithmNamed(alg)
  if (algorithm === undefined) return invalid(`alg ${quote(alg)} is not accepted`)
  if (typ !== undefined && typeof typ !== 'string') return invalid(`typ ${quote(typ)} is no access token`)
  const refused = REFUSED_HEADER_MEMBERS.find((name) => Object.hasOwn(header, name))
  if (refused !== undefined) return invalid(`the header has ${refused}`)
  if (kid !== undefined && (typeof kid !== 'string' || kid === ''))
    return invalid(`kid ${quote(kid)} names no key`)
  if (kid !== undefined && kid.length > MAX_KID_CHARS)
    return invalid(`kid has ${kid.length} characters, more than ${MAX_KID_CHARS}`)
  const claims = withDetailsAsText(jws.payload, () => Buffer.from(text.split('.')[1] ?? '', 'base64url'))
  return { token: { algorithm, kid, type: typeName(typ ?? ''), claims, jws } }
}

/** Decoded headers by their text. Clients can invent headers, so the number is bounded. */
const knownHeaders = new Map<string, JsonObject>()

function readHeader(part: string): JsonObject | string {
  const known = knownHeaders.get(part)
  if (known !== undefined) return known
  const header = decodeObject(part)
  if (typeof header === 'string' || part.length > MAX_KNOWN_HEADER_CHARS) return header
  if (knownHeaders.size >= MAX_KNOWN_HEADERS) knownHeaders.clear()
  knownHeaders.set(ownText(part), header)
  return header
}

/** The `iss` of an unverified JWT; undefined for an opaque token. */
export function issuerNamed(text: string): unknown {
  const [, payload, signature] = text.split('.')
  if (payload === undefined || signature === undefined) return undefined
  const claims = decodeObject(payload)
  return typeof claims === 'string' ? undefined : claims.iss
}

/**
 * Replaces `authorization_details` (RFC 9396) by its JSON text, which keeps numbers as the issuer wrote them.
 * @param json accepted by `parseCheckedJson`; its member `within` has the claims
 */
export function withDetailsAsText(claims: JsonObject, json: () => Buffer, within?: string): JsonObject {
  if (claims.authorization_details === undefined) return claims
  const steps = [...(within === undefined ? [] : [within]), 'authorization_details']
  return { ...claims, authorization_details: memberIn(json().toString('utf8'), steps).source }
}
