import type { Principal } from './principal.ts'
import { quote } from './quote.ts'
import type { JsonObject } from './token.ts'
import { type TokenFault, tokenFault } from './token-fault.ts'
import { isVisibleId } from './visible-id.ts'

export interface ClaimRules {
  /** The one issuer whose tokens are accepted: `iss`, compared character by character. */
  readonly issuer: string
  /** Us: must be among `aud`. */
  readonly audience: string
  /** Epoch milliseconds. */
  readonly nowMs: number
}

export type ClaimsReading =
  | { readonly principal: Principal; readonly expiresAtMs: number; readonly fault?: never }
  | { readonly fault: TokenFault; readonly principal?: never; readonly expiresAtMs?: never }

/** Issuer clocks may run ahead by this (FAPI 2.0 section 5.3.2.1 asks for 10 s); `exp` gets no such grace. */
const SKEW_SECONDS = 10
// A revoked session is remembered for this long: a token that lives longer would come back to life.
const MAX_LIFETIME_SECONDS = 24 * 60 * 60
// RFC 6749 section 3.3.
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/
/** The `client_id` of our own session tokens: a user's session, not a machine. */
const SESSION_CLIENT = 'session'

/**
 * Reads the claims of an access token whose issuer has yet to be proved by its signature: RFC 9068 section 2.2, with
 * `client_id` optional because sessions have none, and RFC 8725 section 3. What goes upstream in headers is visible
 * ASCII and bounded. A token with `cnf` is bound to a key or certificate and never accepted without proof of it
 * (RFC 9449 section 7.2, RFC 8705 section 3). Faults are `invalid` or `expired`. Never throws.
 */
export function readClaims(claims: JsonObject, rules: ClaimRules): ClaimsReading {
  const cause =
    faultOfOrigin(claims, rules) ?? faultOfNames(claims) ?? faultOfTimes(claims, rules.nowMs / 1000)
  if (cause !== undefined) return { fault: tokenFault('invalid', cause) }
  const { exp, sub, sid, client_id: client, scope = '' } = claims as unknown as CheckedClaims
  const expiresAtMs = exp * 1000
  if (rules.nowMs >= expiresAtMs) return { fault: tokenFault('expired', `exp ${exp}`) }
  return { principal: toPrincipal({ sub, client, session: sid, scope }), expiresAtMs }
}

interface CheckedClaims {
  readonly exp: number
  readonly sub: string
  readonly sid: string | undefined
  readonly client_id: string | undefined
  readonly scope?: string
}

function faultOfOrigin({ iss, aud, cnf }: JsonObject, { issuer, audience }: ClaimRules): string | undefined {
  if (iss !== issuer) return `iss ${quote(iss)} is not the issuer`
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((one) => typeof one === 'string')) return 'aud is neither a string nor a list of them'
  if (!audiences.includes(audience)) return `aud ${quote(aud)} does not name us`
  return cnf === undefined ? undefined : 'cnf: bound to a key or certificate, presented without proof of it'
}

function faultOfNames({ sub, jti, sid, client_id: client, scope }: JsonObject): string | undefined {
  if (!isVisibleId(sub)) return `sub ${quote(sub)} is no id`
  if (typeof jti !== 'string' || jti === '') return `jti ${quote(jti)} is no id`
  if (sid !== undefined && !isVisibleId(sid)) return `sid ${quote(sid)} is no id`
  if (client !== undefined && !isVisibleId(client)) return `client_id ${quote(client)} is no id`
  if (scope !== undefined && !(typeof scope === 'string' && SCOPE.test(scope)))
    return `scope ${quote(scope)} is none`
  return undefined
}

function faultOfTimes({ exp, iat, nbf }: JsonObject, nowSeconds: number): string | undefined {
  if (!isNumericDate(exp)) return `exp ${quote(exp)} is no time`
  if (!isNumericDate(iat)) return `iat ${quote(iat)} is no time`
  if (nbf !== undefined && !isNumericDate(nbf)) return `nbf ${quote(nbf)} is no time`
  if (iat > nowSeconds + SKEW_SECONDS) return `iat ${iat} is in the future`
  if (nbf !== undefined && nbf > nowSeconds + SKEW_SECONDS) return `nbf ${nbf} is in the future`
  return exp - iat > MAX_LIFETIME_SECONDS
    ? `lives ${exp - iat} s, more than ${MAX_LIFETIME_SECONDS}`
    : undefined
}

/** RFC 7519 section 2: seconds, perhaps with a fraction. JSON.parse makes Infinity of 1e400. */
function isNumericDate(value: unknown): value is number {
  return Number.isFinite(value)
}

interface Names {
  readonly sub: string
  readonly client: string | undefined
  readonly session: string | undefined
  readonly scope: string
}

function toPrincipal({ sub, client: named, session, scope }: Names): Principal {
  const client = named === SESSION_CLIENT ? undefined : named
  // RFC 9068 section 2.2: where no user takes part, sub is the client itself.
  const isMachine = client === sub
  return Object.freeze({
    method: 'bearer',
    subject: isMachine ? undefined : sub,
    client,
    session,
    scopes: new Set(scope === '' ? [] : scope.split(' ')),
    scope,
    key: isMachine ? `client:${sub}` : `user:${sub}`,
  } satisfies Principal)
}
