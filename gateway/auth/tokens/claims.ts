import type { TokenDialect } from '../../config/issuers/token-dialects.ts'
import { keysOf, type Principal } from '../../principal.ts'
import { plural } from '../../terminal/printable.ts'
import { readBinding } from '../possession/binding.ts'
import { isId, isSessionId, MAX_ID_CHARS, visibleId } from '../visible-id.ts'
import { isMachine } from './dialect.ts'
import type { JsonObject } from './jws.ts'
import { quote } from './quote.ts'
import { invalid, type OrFault, type TokenFault, tokenFault, type VerifiedToken } from './verification.ts'

export interface ClaimRules {
  readonly issuer: string
  readonly audiences: readonly string[]
  readonly tokens: TokenDialect
  readonly clockToleranceMs: number
  /** True for our own issuer. Ids of others become `<issuer>#<id>`, so that no issuer can name the users of another. */
  readonly own: boolean
  /** The other issuers. Set for our own issuer alone, whose ids must not look like theirs. */
  readonly others?: readonly string[] | undefined
  /** Tokens must be bound to a key or certificate (FAPI 2.0 section 5.3.4). */
  readonly boundOnly: boolean
  /** Scopes that the issuer may grant. Undefined: any. */
  readonly scopes: ReadonlySet<string> | undefined
  /** Makes the name of a session for the audit trail. */
  readonly nameSession?: ((session: string) => string) | undefined
}

type ClaimsReading = OrFault<{ readonly verification: VerifiedToken; readonly expiresAtMs: number }>

interface Ids {
  readonly sub: string
  readonly client: string | undefined
  readonly session: string | undefined
}

const HOUR_SECONDS = 3600
/** A scope (RFC 6749 section 3.3), or the empty text between two spaces. */
const SCOPE_OR_NOTHING = /^[\x21\x23-\x5b\x5d-\x7e]*$/
/** The `client_id` of our own session tokens, which belong to users. */
const SESSION_CLIENT = 'session'

/** Checks claims before the signature (RFC 9068 section 2.2, RFC 8725 section 3). Never throws. */
export function readClaims(claims: JsonObject, rules: ClaimRules, nowMs: number): ClaimsReading {
  const { tokens, clockToleranceMs } = rules
  const named = {
    sub: firstOf(claims, tokens.subjectClaims),
    sid: { name: 'sid', value: claims.sid },
    client: firstOf(claims, tokens.clientClaims),
  }
  const cause =
    faultOfOrigin(claims, rules) ??
    faultOfNames(named, rules) ??
    faultOfTokenId(claims, tokens.idClaims) ??
    faultOfTimes(claims, nowMs, clockToleranceMs)
  if (cause !== undefined) return invalid(cause)
  const { exp, iat } = claims as { readonly exp: number; readonly iat: number }
  const livesTooLong = faultOfLifetime(exp - iat, tokens.maxLifetimeMs / 1000)
  if (livesTooLong !== undefined) return { fault: livesTooLong }
  const scopes: string[] = []
  for (const claim of tokens.scopeClaims) {
    const some = scopesOf(claims[claim])
    if (some === undefined) return invalid(`${claim} ${quote(claims[claim])} is no list of scopes`)
    scopes.push(...some)
  }
  const binding = readBinding(claims.cnf)
  if (typeof binding === 'string') return invalid(binding)
  if (binding === undefined && rules.boundOnly)
    return invalid('no cnf: this issuer is trusted for bound tokens only')
  const ids = { sub: named.sub.value, client: named.client.value, session: named.sid.value } as Ids
  // No issuer contains `#` (RFC 8414 section 2).
  const realm = rules.own ? '' : `${rules.issuer}#`
  const isOfSession = ids.client === undefined || (rules.own && ids.client === SESSION_CLIENT)
  const client = isOfSession ? undefined : realm + visibleId(ids.client as string)
  const expiresAtMs = exp * 1000 + clockToleranceMs
  const agoSeconds = Math.floor((nowMs - exp * 1000) / 1000)
  const late = `exp was ${agoSeconds} s ago; ${clockToleranceMs / 1000} s are allowed`
  if (nowMs >= expiresAtMs) return { fault: { ...tokenFault('expired', late), client } }
  const isForNoUser = isMachine(claims, tokens.machine)
  if (isForNoUser && ids.client === undefined)
    return invalid(`it is the token of a machine, but has no ${named.client.name}`)
  const sub = realm + visibleId(ids.sub)
  const session = ids.session && realm + ids.session
  // RFC 9068 section 2.2: without a user, sub is the client itself.
  const isOfClient =
    client !== undefined && (isForNoUser || client === sub || client + tokens.machineSuffix === sub)
  const granted = new Set(
    rules.scopes === undefined ? scopes : scopes.filter((one) => rules.scopes?.has(one)),
  )
  // `withDetailsAsText` has made this claim a text.
  const { authorization_details: details } = claims
  const principal = Object.freeze({
    method: 'bearer',
    subject: isOfClient ? undefined : sub,
    client,
    session,
    sessionName: session && rules.nameSession?.(session),
    expiresAtMs,
    scopes: granted,
    scope: [...granted].join(' '),
    acr: typeof claims.acr === 'string' ? claims.acr : undefined,
    authenticatedAtMs: authenticatedAtMs(claims.auth_time, nowMs, clockToleranceMs),
    authorizationDetails: typeof details === 'string' ? details : undefined,
    ...keysOf(isOfClient ? `client:${client}` : `user:${sub}`),
  } satisfies Principal)
  return { verification: { principal, binding, issuer: rules.issuer }, expiresAtMs }
}

interface NamedClaim {
  readonly name: string
  readonly value: unknown
}

/** The first claim that is there. If none is, the name lists them all. */
function firstOf(claims: JsonObject, names: readonly string[]): NamedClaim {
  for (const name of names) if (claims[name] !== undefined) return { name, value: claims[name] }
  return { name: names.join(' or '), value: undefined }
}

function faultOfOrigin(claims: JsonObject, rules: ClaimRules): string | undefined {
  const { aud, iss } = claims
  if (iss !== rules.issuer) return `iss ${quote(iss)} is not ${rules.issuer}`
  const { audienceClaim } = rules.tokens
  const cause = faultOfAudience(audienceClaim, claims[audienceClaim], rules)
  // RFC 7519 section 4.1.3: a token whose `aud` names only others is refused, whatever claim holds the audience.
  const namesNobody = (aud ?? undefined) === undefined || (Array.isArray(aud) && aud.length === 0)
  return cause ?? (namesNobody ? undefined : faultOfAudience('aud', aud, rules))
}

function faultOfAudience(name: string, value: unknown, { audiences }: ClaimRules): string | undefined {
  // Most tokens name one audience, the first of ours.
  if (value === audiences[0]) return undefined
  const named: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (!named.every((one) => typeof one === 'string')) return `${name} is neither a string nor a list of them`
  if (!audiences.some((audience) => named.includes(audience)))
    return `${name} ${quote(value)} does not name ${audiences.join(' or ')}`
  return undefined
}

function faultOfNames(
  { sub, sid, client }: { readonly sub: NamedClaim; readonly sid: NamedClaim; readonly client: NamedClaim },
  { others = [] }: ClaimRules,
): string | undefined {
  if (!isId(sub.value)) return faultOfId(sub.name, sub.value)
  if (sid.value !== undefined && !isSessionId(sid.value)) return faultOfId(sid.name, sid.value)
  if (client.value !== undefined && !isId(client.value)) return faultOfId(client.name, client.value)
  for (const { name, value = '' } of [sub, sid, client] as readonly { name: string; value?: string }[]) {
    const shown = name === 'sid' ? value : visibleId(value)
    if (others.some((other) => shown.startsWith(`${other}#`)))
      return `${name} ${quote(value)} is in the realm of another issuer`
  }
  return undefined
}

function faultOfTokenId(claims: JsonObject, idClaims: readonly string[]): string | undefined {
  const { name, value } = firstOf(claims, idClaims)
  return idClaims.length === 0 || (typeof value === 'string' && value !== '')
    ? undefined
    : `${name} ${quote(value)} is no id`
}

function faultOfId(name: string, id: unknown): string {
  const chars = typeof id === 'string' ? [...id].length : 0
  return chars > MAX_ID_CHARS
    ? `${name} has ${chars} characters, more than ${MAX_ID_CHARS}`
    : `${name} ${quote(id)} is no id`
}

function faultOfTimes({ exp, iat, nbf }: JsonObject, nowMs: number, aheadMs: number): string | undefined {
  if (!isNumericDate(exp)) return `exp ${quote(exp)} is no time`
  if (!isNumericDate(iat)) return `iat ${quote(iat)} is no time`
  if (nbf !== undefined && !isNumericDate(nbf)) return `nbf ${quote(nbf)} is no time`
  const latestMs = nowMs + aheadMs
  if (iat * 1000 <= latestMs && (nbf === undefined || nbf * 1000 <= latestMs)) return undefined
  const [claim, seconds] = iat * 1000 > latestMs ? ['iat', iat] : ['nbf', nbf as number]
  const ahead = Math.ceil(seconds - nowMs / 1000)
  return `${claim} is ${ahead} s ahead of our clock; ${aheadMs / 1000} s are allowed`
}

/** The caller is told of a token that lives too long, because only the issuer can mend it. */
function faultOfLifetime(seconds: number, maxSeconds: number): TokenFault | undefined {
  if (seconds <= maxSeconds) return undefined
  const cause = `lives ${seconds} s (exp - iat), more than ${maxSeconds}: shorten it at the issuer`
  const hours = maxSeconds / HOUR_SECONDS
  const allowed = Number.isInteger(hours) ? plural(hours, 'hour') : plural(maxSeconds, 'second')
  return tokenFault('invalid', cause, `The access token lives for more than ${allowed}`)
}

function scopesOf(claim: unknown): readonly string[] | undefined {
  const names = typeof claim === 'string' ? claim.split(' ') : (claim ?? [])
  if (!Array.isArray(names)) return undefined
  if (!names.every((name) => typeof name === 'string' && SCOPE_OR_NOTHING.test(name))) return undefined
  return names.filter((name) => name !== '')
}

/** RFC 7519 section 2. JSON.parse makes Infinity of 1e400. */
function isNumericDate(value: unknown): value is number {
  return Number.isFinite(value)
}

/** A malformed `auth_time` (RFC 9470 section 6) counts as missing, because only some rows need it. */
function authenticatedAtMs(time: unknown, nowMs: number, clockToleranceMs: number): number | undefined {
  if (!isNumericDate(time) || time * 1000 > nowMs + clockToleranceMs) return undefined
  return time * 1000 + clockToleranceMs
}
