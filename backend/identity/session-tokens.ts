import { createPublicKey } from 'node:crypto'
import jsonwebtoken, { type JwtPayload } from 'jsonwebtoken'
import { v7 as uuid } from 'uuid'
import { ALGORITHM, type SigningKeys } from './keys.ts'

export const ACCESS_TOKEN_SECONDS = 600

/** Covers a slow clock of the gateway, and the time between recording and signing a token. */
export const CLOCK_TOLERANCE_MS = 60_000

/** `client_id` (required by RFC 9068) of tokens issued for a password. */
export const SESSION_CLIENT = 'session'

/** The `typ` of an access token (RFC 9068 section 2.1). */
const TYPE = 'at+jwt'

export type Role = 'user' | 'operator'

const USER_SCOPES = 'accounts:read transfers:write identity:verify'
export const SCOPES_OF_ROLE: Readonly<Record<Role, string>> = {
  user: USER_SCOPES,
  operator: `${USER_SCOPES} users:admin`,
}

export interface TokenSubject {
  readonly userId: string
  readonly sessionId: string
  readonly role: Role
}

/** `publicUrl` is the `iss`; with `/api` it is the audience. */
interface Issuer<Keys extends 'current' | 'published'> {
  readonly publicUrl: string
  readonly keys: Pick<SigningKeys, Keys>
  readonly clock: () => Date
}

/** Signs an access token in the profile of RFC 9068. */
export function issueAccessToken(
  { publicUrl, keys, clock }: Issuer<'current'>,
  subject: TokenSubject,
): string {
  const { kid, privateKey } = keys.current
  const issuedAtSeconds = secondsOf(clock())
  const claims = {
    sid: subject.sessionId,
    client_id: SESSION_CLIENT,
    scope: SCOPES_OF_ROLE[subject.role],
    iss: publicUrl,
    aud: `${publicUrl}/api`,
    sub: subject.userId,
    jti: uuid(),
    iat: issuedAtSeconds,
    exp: issuedAtSeconds + ACCESS_TOKEN_SECONDS,
  }
  return jsonwebtoken.sign(claims, privateKey, {
    algorithm: ALGORITHM,
    header: { alg: ALGORITHM, typ: TYPE, kid },
  })
}

/** Returns the claims of a valid access token of this server, for a session or an OAuth client; else undefined. */
export function verifyAccessToken(
  { publicUrl, keys, clock }: Issuer<'published'>,
  token: string,
): JwtPayload | undefined {
  try {
    const kid = jsonwebtoken.decode(token, { complete: true })?.header.kid
    const jwk = keys.published.keys.find((published) => published.kid === kid)
    if (jwk === undefined) return undefined
    const key = createPublicKey({ key: { ...jwk }, format: 'jwk' })
    const { header, payload } = jsonwebtoken.verify(token, key, {
      // Without it the library takes every algorithm that fits the key.
      algorithms: [ALGORITHM],
      issuer: publicUrl,
      audience: `${publicUrl}/api`,
      // Requires `iat`, and refuses an older token even if `exp` is later.
      maxAge: ACCESS_TOKEN_SECONDS,
      clockTimestamp: secondsOf(clock()),
      complete: true,
    })
    // The library does not check the type, extensions (RFC 7515 section 4.1.11) or a missing `exp`.
    if (header.typ !== TYPE || header.crit !== undefined) return undefined
    return typeof payload === 'object' && payload.exp !== undefined ? payload : undefined
  } catch {
    return undefined
  }
}

export function secondsOf(date: Date): number {
  return Math.floor(date.getTime() / 1000)
}
