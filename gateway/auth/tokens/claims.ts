import { keysOf, type Principal } from '../../principal.ts'
import { type Binding, readBinding } from '../possession/binding.ts'
import { isId, isSessionId, MAX_ID_CHARS, visibleId } from '../visible-id.ts'
import type { JsonObject } from './jws.ts'
import { quote } from './quote.ts'
import { type TokenFault, tokenFault } from './token-fault.ts'

export interface ClaimRules {
  /** Must equal `iss`. */
  readonly issuer: string
  /** Our audience: must be in `aud`. */
  readonly audience: string
  /**
   * True when the issuer's ids are our own ids of users, clients and sessions. The ids of any other issuer become
   * `<issuer>#<id>`, so that no issuer can name the users of another.
   */
  readonly own: boolean
  /** The names of the further issuers, for our own: none of its ids may be one of theirs. */
  readonly others?: readonly string[] | undefined
  /** Only tokens that are bound to a key or certificate are accepted (FAPI 2.0 section 5.3.4). */
  readonly boundOnly: boolean
  /** The scopes that it may grant; others in its tokens are ignored. Undefined: any. */
  readonly scopes: ReadonlySet<string> | undefined
}

type ClaimsReading =
  | {
      readonly principal: Principal
      /** What the caller must prove with every use of the token. */
      readonly binding: Binding | undefined
      readonly expiresAtMs: number
      readonly fault?: never
    }
  | {
      readonly fault: TokenFault
      readonly principal?: never
      readonly binding?: never
      readonly expiresAtMs?: never
    }

/** How far an issuer's clock may be ahead (FAPI 2.0 section 5.3.2.1 asks for 10 s); not applied to `exp`. */
const SKEW_SECONDS = 10
// Revoked sessions are remembered this long: a token that lives longer would be accepted again.
const MAX_LIFETIME_SECONDS = 24 * 60 * 60
/** A scope (RFC 6749 section 3.3), or nothing: what is between two spaces. */
const SCOPE_OR_NOTHING = /^[\x21\x23-\x5b\x5d-\x7e]*$/
/** The `client_id` of our own session tokens: a user's session, not a machine. */
const SESSION_CLIENT = 'session'

/**
 * Checks the claims of an access token before its signature is verified: RFC 9068 section 2.2, with
 * `client_id` optional because sessions have none, RFC 8725 section 3, and `cnf` of RFC 9449 section 6.1 and RFC 8705
 * section 3.1. The names of users and clients are percent-encoded (`visibleId`), and what goes upstream in headers is
 * visible ASCII and bounded. Faults are `invalid` or `expired`.
 * Never throws.
 *
 * @param nowMs epoch milliseconds
 */
export function readClaims(claims: JsonObject, rules: ClaimRules, nowMs: number): ClaimsReading {
  const cause =
    faultOfOrigin(claims, rules) ?? faultOfNames(claims, rules) ?? faultOfTimes(claims, nowMs / 1000)
  if (cause !== undefined) return invalid(cause)
  const livesTooLong = faultOfLifetime(claims as unknown as CheckedClaims)
  if (livesTooLong !== undefined) return { fault: livesTooLong }
  const scopes = scopesOf(claims.scope)
  if (scopes === undefined) return invalid(`scope ${quote(claims.scope)} is none`)
  const binding = readBinding(claims.cnf)
  if (typeof binding === 'string') return invalid(binding)
  if (binding === undefined && rules.boundOnly)
    return invalid('no cnf: this issuer is trusted for bound tokens only')
  const { exp, sub, sid, client_id: client } = claims as unknown as CheckedClaims
  const expiresAtMs = exp * 1000
  const agoSeconds = Math.floor((nowMs - expiresAtMs) / 1000)
  if (nowMs >= expiresAtMs)
    return { fault: tokenFault('expired', `exp was ${agoSeconds} s ago; 0 s are allowed`) }
  const visible = { sub: visibleId(sub), client: client && visibleId(client), sid }
  const names = rules.own ? ownNames(visible) : namesOf(rules.issuer, visible)
  return { principal: toPrincipal(names, confined(scopes, rules.scopes), expiresAtMs), binding, expiresAtMs }
}

function invalid(cause: string): ClaimsReading {
  return { fault: tokenFault('invalid', cause) }
}

interface CheckedClaims {
  readonly exp: number
  readonly iat: number
  readonly sub: string
  readonly sid: string | undefined
  readonly client_id: string | undefined
}

function faultOfOrigin({ iss, aud }: JsonObject, { issuer, audience }: ClaimRules): string | undefined {
  if (iss !== issuer) return `iss ${quote(iss)} is not ${issuer}`
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  if (!audiences.every((one) => typeof one === 'string')) return 'aud is neither a string nor a list of them'
  return audiences.includes(audience) ? undefined : `aud ${quote(aud)} does not name ${audience}`
}

function faultOfNames(
  { sub, jti, sid, client_id: client }: JsonObject,
  { others = [] }: ClaimRules,
): string | undefined {
  if (!isId(sub)) return faultOfId('sub', sub)
  if (typeof jti !== 'string' || jti === '') return `jti ${quote(jti)} is no id`
  if (sid !== undefined && !isSessionId(sid)) return faultOfId('sid', sid)
  if (client !== undefined && !isId(client)) return faultOfId('client_id', client)
  for (const [name, id] of Object.entries({ sub, sid, client_id: client }))
    if (others.some((other) => id?.startsWith(`${other}#`)))
      return `${name} ${quote(id)} is in the realm of another issuer`
  return undefined
}

function faultOfId(name: string, id: unknown): string {
  const chars = typeof id === 'string' ? [...id].length : 0
  return chars > MAX_ID_CHARS
    ? `${name} has ${chars} characters, more than ${MAX_ID_CHARS}`
    : `${name} ${quote(id)} is no id`
}

function faultOfTimes({ exp, iat, nbf }: JsonObject, nowSeconds: number): string | undefined {
  if (!isNumericDate(exp)) return `exp ${quote(exp)} is no time`
  if (!isNumericDate(iat)) return `iat ${quote(iat)} is no time`
  if (nbf !== undefined && !isNumericDate(nbf)) return `nbf ${quote(nbf)} is no time`
  if (iat > nowSeconds + SKEW_SECONDS) return aheadOf('iat', iat, nowSeconds)
  if (nbf !== undefined && nbf > nowSeconds + SKEW_SECONDS) return aheadOf('nbf', nbf, nowSeconds)
  return undefined
}

/** The caller is told, because only the issuer can mend it, and the bound is no secret. */
function faultOfLifetime({ exp, iat }: CheckedClaims): TokenFault | undefined {
  const seconds = exp - iat
  if (seconds <= MAX_LIFETIME_SECONDS) return undefined
  const cause = `lives ${seconds} s (exp - iat), more than ${MAX_LIFETIME_SECONDS}: shorten it at the issuer`
  return tokenFault('invalid', cause, 'The access token lives for more than 24 hours')
}

/**
 * The scopes of a claim: a text with spaces between them, or a list of them. An empty one, null and a missing one are none. Undefined
 * when it is anything else.
 */
function scopesOf(claim: unknown): readonly string[] | undefined {
  const names = typeof claim === 'string' ? claim.split(' ') : (claim ?? [])
  if (!Array.isArray(names)) return undefined
  if (!names.every((name) => typeof name === 'string' && SCOPE_OR_NOTHING.test(name))) return undefined
  return names.filter((name) => name !== '')
}

function aheadOf(claim: string, seconds: number, nowSeconds: number): string {
  return `${claim} is ${Math.ceil(seconds - nowSeconds)} s ahead of our clock; ${SKEW_SECONDS} s are allowed`
}

/** RFC 7519 section 2: seconds, perhaps with a fraction. JSON.parse makes Infinity of 1e400. */
function isNumericDate(value: unknown): value is number {
  return Number.isFinite(value)
}

interface Names {
  readonly sub: string
  readonly client: string | undefined
  readonly sid: string | undefined
}

function ownNames({ sub, client, sid }: Names): Names {
  return { sub, client: client === SESSION_CLIENT ? undefined : client, sid }
}

/** An issuer contains no `#` (RFC 8414 section 2), so the result is unambiguous. */
function namesOf(issuer: string, { sub, client, sid }: Names): Names {
  const named = (name: string | undefined) => (name === undefined ? undefined : `${issuer}#${name}`)
  return { sub: `${issuer}#${sub}`, client: named(client), sid: named(sid) }
}

function confined(scopes: readonly string[], allowed: ReadonlySet<string> | undefined): readonly string[] {
  return allowed === undefined ? scopes : scopes.filter((one) => allowed.has(one))
}

function toPrincipal({ sub, client, sid }: Names, scopes: readonly string[], expiresAtMs: number): Principal {
  // RFC 9068 section 2.2: without a user, sub is the client itself.
  const isMachine = client === sub
  return Object.freeze({
    method: 'bearer',
    subject: isMachine ? undefined : sub,
    client,
    session: sid,
    sessionName: undefined,
    expiresAtMs,
    scopes: new Set(scopes),
    scope: scopes.join(' '),
    ...keysOf(isMachine ? `client:${sub}` : `user:${sub}`),
  } satisfies Principal)
}
