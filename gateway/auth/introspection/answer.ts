import { typeName } from '../../config/issuers/token-dialects.ts'
import { parseCheckedJson } from '../../edge/bodies/checked-json.ts'
import { APPLICATION_JSON, bareMediaType } from '../../edge/syntax/media-type.ts'
import type { IncomingResponse } from '../../outgoing/sender.ts'
import type { KeySet } from '../keys/jwks.ts'
import { type Algorithm, algorithmNamed } from '../keys/signature.ts'
import type { ClaimRules } from '../tokens/claims.ts'
import { faultOfKind, saysAccess } from '../tokens/dialect.ts'
import { isJsonObject, type JsonObject, parseJws } from '../tokens/jws.ts'
import { quote } from '../tokens/quote.ts'
import { withDetailsAsText } from '../tokens/token.ts'
import { isSessionId } from '../visible-id.ts'

/** Media type (RFC 9701 section 5), without `application/`. */
const SIGNED = 'token-introspection+jwt'
/** How far `iat` of a signed answer may be from our clock, besides the clock tolerance of the issuer. */
const FRESH_MS = 60_000
/** Values of `token_type` (RFC 6750, RFC 9449). Other tokens, such as refresh tokens, are not for resource servers. */
const ACCESS_TYPES: ReadonlySet<string> = new Set(['bearer', 'dpop'])

export interface AskedIssuer extends ClaimRules {
  readonly algorithms: ReadonlySet<Algorithm>
  readonly keys: KeySet
}

interface Asked {
  readonly issuer: AskedIssuer
  readonly clientId: string
  readonly nowMs: number
}

/** Reads an answer (RFC 7662 section 2.2). @throws Error for any other response */
export function readAnswer(response: IncomingResponse): JsonObject {
  checkStatus(response)
  if (!APPLICATION_JSON.test(mediaType(response)))
    throw new Error(`the response is ${quote(mediaType(response))}, not JSON`)
  const json = parseCheckedJson(response.body)
  if ('fault' in json) throw new Error(`the response ${json.fault}`)
  return withDetailsAsText(activeOrNot(json.value), () => response.body)
}

function checkStatus({ statusCode }: IncomingResponse): void {
  if (statusCode === 200) return
  const why = statusCode === 401 ? ': it refuses "clientId" or its secret or key' : ''
  throw new Error(`the response has status ${statusCode}, not 200${why}`)
}

/** Reads a signed answer (RFC 9701 section 5). @throws Error */
export async function readSignedAnswer(
  response: IncomingResponse,
  { issuer, clientId, nowMs }: Asked,
): Promise<JsonObject> {
  checkStatus(response)
  if (mediaType(response) !== `application/${SIGNED}`)
    throw new Error(`the response is ${quote(mediaType(response))}, not signed as application/${SIGNED}`)
  const jws = parseJws(response.body.toString('latin1'))
  if (typeof jws === 'string') throw new Error(`the signed response is no JWS: ${jws}`)
  const { alg, typ, kid, crit } = jws.header
  const algorithm = algorithmNamed(alg)
  if (algorithm === undefined || !issuer.algorithms.has(algorithm) || crit !== undefined)
    throw new Error(`the response is signed by alg ${quote(alg)}, which is not accepted`)
  if (typeof typ !== 'string' || typeName(typ) !== SIGNED)
    throw new Error(`the signed response has typ ${quote(typ)}, not ${SIGNED}`)
  const isSigned = () =>
    issuer.keys
      .fitting(algorithm)
      .filter((key) => kid === undefined || key.kid === kid)
      .some(({ checks }) => checks.get(algorithm)?.(jws))
  if (!isSigned()) {
    await issuer.keys.refresh()
    if (!isSigned()) throw new Error('the response is not signed by a key of the issuer')
  }
  const { iss, aud, iat, token_introspection: answer } = jws.payload
  if (iss !== issuer.issuer)
    throw new Error(`the signed response has iss ${quote(iss)}, not ${issuer.issuer}`)
  if (![aud].flat().includes(clientId))
    throw new Error(`the signed response has aud ${quote(aud)}, which does not name ${clientId}`)
  if (typeof iat !== 'number' || Math.abs(iat * 1000 - nowMs) > FRESH_MS + issuer.clockToleranceMs)
    throw new Error(`the signed response has iat ${quote(iat)}, which is too far from our clock`)
  return withDetailsAsText(
    activeOrNot(answer),
    () => Buffer.from(jws.signed.split('.')[1] ?? '', 'base64url'),
    'token_introspection',
  )
}

/** True when the endpoint does not know tokens of this kind. Other 400s are faults of the settings. */
export function isOfUnsupportedType({ statusCode, body }: IncomingResponse): boolean {
  if (statusCode !== 400) return false
  const json = parseCheckedJson(body)
  return 'value' in json && isJsonObject(json.value) && json.value.error === 'unsupported_token_type'
}

function mediaType({ headers }: IncomingResponse): string {
  return bareMediaType(String(headers['content-type'] ?? ''))
}

/** A member that is null counts as missing. */
function activeOrNot(answer: unknown): JsonObject {
  if (!isJsonObject(answer)) throw new Error('the answer is no JSON object')
  if (typeof answer.active !== 'boolean')
    throw new Error('the answer does not say whether the token is active')
  return Object.fromEntries(Object.entries(answer).filter(([, value]) => value !== null))
}

/** `token_type` or the terms of the dialect must say that the token is an access token. */
export function faultOfAnswer(
  answer: JsonObject,
  { tokens }: Pick<ClaimRules, 'tokens'>,
): string | undefined {
  const { token_type: type } = answer
  if (type !== undefined && !(typeof type === 'string' && ACCESS_TYPES.has(type.toLowerCase())))
    return `token_type ${quote(type)} is no access token`
  const required = faultOfKind('at+jwt', answer, { ...tokens, types: ['at+jwt'] })
  if (required !== undefined) return required
  return type === undefined && !tokens.require.some(saysAccess)
    ? 'the answer has no token_type, so it may be about another kind of token'
    : undefined
}

export function claimsOfAnswer(
  answer: JsonObject,
  { issuer, tokens }: Pick<ClaimRules, 'issuer' | 'tokens'>,
  nowMs: number,
): JsonObject {
  const { iss = issuer, exp, iat, sid, jti } = answer
  const nowSeconds = Math.floor(nowMs / 1000)
  const client = tokens.clientClaims.find((name) => answer[name] !== undefined)
  const isForUser = tokens.subjectClaims.some((name) => answer[name] !== undefined)
  const session = sid ?? (isSessionId(jti) ? jti : undefined)
  return {
    ...answer,
    iss,
    iat: exp === undefined ? nowSeconds : (iat ?? nowSeconds),
    exp: exp ?? nowSeconds + Math.floor(tokens.maxLifetimeMs / 1000),
    ...(session !== undefined && { sid: session }),
    ...(!isForUser && client !== undefined && { [tokens.subjectClaims[0] as string]: answer[client] }),
  }
}
