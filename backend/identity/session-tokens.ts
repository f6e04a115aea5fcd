import { SignJWT } from 'jose'
import { v7 as uuid } from 'uuid'
import type { SigningKeys } from './keys.ts'

/** How long an access token is accepted. */
export const ACCESS_TOKEN_SECONDS = 600

/** How far the gateway's clock may be behind, and the time between recording and signing a token. */
export const CLOCK_TOLERANCE_MS = 60_000

/** `client_id` of tokens for a password, without an OAuth client (RFC 9068 requires one). */
export const SESSION_CLIENT = 'session'

export type Role = 'user' | 'operator'

const USER_SCOPES = 'accounts:read transfers:write identity:verify'
/** The scopes of a role. */
export const SCOPES_OF_ROLE: Readonly<Record<Role, string>> = {
  user: USER_SCOPES,
  operator: `${USER_SCOPES} users:admin`,
}

/** Who a token is issued for. */
export interface TokenSubject {
  readonly userId: string
  readonly sessionId: string
  readonly role: Role
}

/** What the issuer needs: its URL (`iss`; the audience is that plus `/api`), its keys, the time. */
export interface Issuer {
  readonly publicUrl: string
  readonly keys: Pick<SigningKeys, 'current'>
  readonly clock: () => Date
}

/** A signed access token in the profile of RFC 9068, accepted for {@link ACCESS_TOKEN_SECONDS}. */
export function issueAccessToken(issuer: Issuer, subject: TokenSubject): Promise<string> {
  const { kid, algorithm, privateKey } = issuer.keys.current
  const issuedAtSeconds = Math.floor(issuer.clock().getTime() / 1000)
  return new SignJWT({
    sid: subject.sessionId,
    client_id: SESSION_CLIENT,
    scope: SCOPES_OF_ROLE[subject.role],
  })
    .setProtectedHeader({ alg: algorithm, typ: 'at+jwt', kid })
    .setIssuer(issuer.publicUrl)
    .setAudience(`${issuer.publicUrl}/api`)
    .setSubject(subject.userId)
    .setJti(uuid())
    .setIssuedAt(issuedAtSeconds)
    .setExpirationTime(issuedAtSeconds + ACCESS_TOKEN_SECONDS)
    .sign(privateKey)
}
