import { LRUCache } from 'lru-cache'
import { andThen } from '../../refusals.ts'
import type { Introspector } from '../introspection/introspector.ts'
import type { KeySet } from '../keys/jwks.ts'
import type { VerificationKey } from '../keys/verification-key.ts'
import type { Revocations } from '../revocations.ts'
import { readClaims } from './claims.ts'
import { faultOfKind } from './dialect.ts'
import { type Caller, FairTurns } from './fair-turns.ts'
import type { TrustedIssuer } from './issuers.ts'
import { quote } from './quote.ts'
import { issuerNamed, type ParsedToken, parseToken } from './token.ts'
import { invalid, tokenFault, type Verification, type VerifiedToken } from './verification.ts'

interface TokenVerifierOptions {
  readonly issuers: readonly TrustedIssuer[]
  readonly revocations: Revocations
  readonly clock: () => number
  readonly turns?: FairTurns
  readonly cacheSize?: number
}

/** The part of a verdict that cannot change. Each use checks the rest. */
interface Verified {
  readonly verification: VerifiedToken
  readonly issuer: TrustedIssuer
  readonly key: VerificationKey
  readonly expiresAtMs: number
}

const CACHE_SIZE = 10_000
const MAX_CACHED_CHARS = 16 * 1024 * 1024
const EXPIRED = tokenFault('expired', 'expired since it was first seen')
const REVOKED: Verification = { fault: tokenFault('revoked', 'its session was revoked') }
const BAD_SIGNATURE: Verification = invalid('the signature does not fit')

/** Verifies access tokens. Good ones are cached until they expire, bad ones never. */
export class TokenVerifier {
  readonly #options: TokenVerifierOptions
  readonly #issuers: ReadonlyMap<unknown, TrustedIssuer>
  readonly #verified: LRUCache<string, Verified>
  readonly #pending = new Map<string, Promise<Verification>>()
  /** Bounds the time for new tokens and for signatures of requests. */
  readonly turns: FairTurns
  readonly #asked: readonly TrustedIssuer[]
  readonly maxChars: number

  /** @param before passes on its cached tokens of unchanged issuers */
  constructor(options: TokenVerifierOptions, before?: TokenVerifier) {
    this.#options = options
    this.turns = options.turns ?? new FairTurns()
    this.maxChars = Math.max(...options.issuers.map(({ tokens }) => tokens.maxChars))
    this.#asked = options.issuers.filter(({ introspector }) => introspector !== undefined)
    this.#issuers = new Map(options.issuers.map((issuer) => [issuer.issuer, issuer]))
    this.#verified = new LRUCache({
      max: options.cacheSize ?? CACHE_SIZE,
      maxSize: MAX_CACHED_CHARS,
      sizeCalculation: (_verified, token) => token.length,
    })
    const isKept = ({ issuer }: Verified) => options.issuers.includes(issuer)
    // The cache is copied: requests that use the old verifier may add tokens of issuers no longer trusted.
    if (before !== undefined) {
      this.#verified.load(before.#verified.dump().filter(([, { value }]) => isKept(value)))
    }
  }

  get issuers(): readonly TrustedIssuer[] {
    return this.#options.issuers
  }

  /**
   * Returns a promise only when it must wait for keys, an introspection or the caller's turn. Never throws.
   * @param trust issuers that may be asked about an opaque token; undefined: all
   */
  verify(token: string, caller: Caller, trust?: ReadonlySet<string>): Verification | Promise<Verification> {
    const known = this.#verifyCached(token)
    if (known !== undefined) return known
    const introspector = this.#asked.length === 0 ? undefined : this.#introspectorFor(trust)
    if (introspector !== undefined) {
      const active = introspector.verifyKnown(token)
      if (active !== undefined) return this.#unlessRevoked(active)
      if (this.#isAsked(introspector, token))
        return andThen(introspector.verify(token, caller), (answered) => this.#unlessRevoked(answered))
    }
    // The token may have been verified while it waited.
    return this.turns.take(caller, () => this.#verifyCached(token) ?? this.#verifyNew(token))
  }

  /** Finds a verified token that is still good: such a token is no guess. */
  verifyKnown(token: string, trust?: ReadonlySet<string>): VerifiedToken | undefined {
    const known = this.#verifyCached(token)
    if (known !== undefined) return known instanceof Promise || known.fault !== undefined ? undefined : known
    const active = this.#introspectorFor(trust)?.verifyKnown(token)
    const current = active && this.#unlessRevoked(active)
    return current?.fault === undefined ? current : undefined
  }

  /** True for an opaque token that its issuer has called active before. Such a token is no guess either. */
  wasActive(token: string, trust?: ReadonlySet<string>): boolean {
    return this.#introspectorFor(trust)?.wasActive(token) === true
  }

  /** A row trusts at most one issuer with an introspector. */
  #introspectorFor(trust: ReadonlySet<string> | undefined): Introspector | undefined {
    return this.#asked.find(({ issuer }) => trust?.has(issuer) !== false)?.introspector
  }

  /** False for a JWT that is verified here or is of another trusted issuer: no issuer but its own may see it. */
  #isAsked(introspector: Introspector, token: string): boolean {
    const named = this.#issuers.get(issuerNamed(token))
    return named === undefined || (named.introspector === introspector && isAskedForAll(named))
  }

  #unlessRevoked(verification: Verification): Verification {
    return this.#options.revocations.isRevoked(verification.principal?.session) ? REVOKED : verification
  }

  #verifyCached(token: string): Verification | Promise<Verification> | undefined {
    const known = this.#verified.get(token)
    if (known !== undefined) {
      if (known.issuer.keys.all.includes(known.key)) return this.#currentVerification(token, known)
      // The issuer has removed or replaced the key.
      this.#verified.delete(token)
    }
    return this.#pending.size === 0 ? undefined : this.#pending.get(token)
  }

  #verifyNew(text: string): Verification | Promise<Verification> {
    const { token, fault } = parseToken(text)
    if (token === undefined) return { fault }
    const { algorithm, claims } = token
    const issuer = this.#issuers.get(claims.iss)
    if (issuer === undefined)
      return invalid(
        `iss ${quote(claims.iss)} is not trusted; trusted: ${[...this.#issuers.keys()].join(', ')}`,
      )
    if (isAskedForAll(issuer))
      return invalid('its issuer must be asked about it, but the row does not trust the issuer')
    if (text.length > issuer.tokens.maxChars)
      return { fault: tokenFault('malformed', `longer than ${issuer.tokens.maxChars} characters`) }
    const kind = faultOfKind(token.type, claims, issuer.tokens)
    if (kind !== undefined) return invalid(kind)
    if (!issuer.algorithms.has(algorithm))
      return invalid(
        `alg ${algorithm} is not accepted from this issuer; accepted: ${[...issuer.algorithms].join(', ')}`,
      )
    // Only a token that could be valid may make us fetch keys.
    const reading = readClaims(claims, issuer, this.#options.clock())
    if (reading.fault !== undefined) return { fault: reading.fault }
    const { verification: verified, expiresAtMs } = reading
    const check = (key: VerificationKey) =>
      this.#checkSignature(text, token, { verification: verified, issuer, key, expiresAtMs })
    const key = findKey(issuer.keys, token)
    if (typeof key === 'string') return invalid(key)
    const verification = key && check(key)
    // A token without a kid may be signed by a key that the issuer has published since the last fetch.
    return verification === undefined || (token.kid === undefined && verification === BAD_SIGNATURE)
      ? this.#once(text, findAfterRefresh(issuer.keys, token, check, key))
      : verification
  }

  #checkSignature(text: string, { algorithm, jws }: ParsedToken, found: Verified): Verification {
    // RFC 8725 section 3.1: the key decides, not the token.
    const isSigned = found.key.checks.get(algorithm)
    if (isSigned === undefined)
      return invalid(`alg ${algorithm} is not what key ${quote(found.key.kid)} is for`)
    if (!isSigned(jws)) return BAD_SIGNATURE
    this.#verified.set(text, found)
    // The token may have expired, or its session ended, while keys were fetched.
    return this.#currentVerification(text, found)
  }

  #currentVerification(text: string, { verification, expiresAtMs }: Verified): Verification {
    if (this.#options.clock() >= expiresAtMs) {
      this.#verified.delete(text)
      return { fault: { ...EXPIRED, client: verification.principal.client } }
    }
    return this.#unlessRevoked(verification)
  }

  #once(text: string, verification: Promise<Verification>): Promise<Verification> {
    const shared = verification.finally(() => this.#pending.delete(text))
    this.#pending.set(text, shared)
    return shared
  }
}

/** Undefined: the key is not known. A text says that several keys fit. */
function findKey(keys: KeySet, { kid, algorithm }: ParsedToken): VerificationKey | string | undefined {
  if (kid !== undefined) return keys.find(kid, algorithm)
  const fitting = keys.fitting(algorithm)
  if (fitting.length <= 1) return fitting[0]
  return `the header names no key, and ${fitting.length} keys of the issuer fit ${algorithm}: have it send a kid`
}

async function findAfterRefresh(
  keys: KeySet,
  token: ParsedToken,
  check: (key: VerificationKey) => Verification,
  tried: VerificationKey | undefined,
): Promise<Verification> {
  const refreshed = await keys.refresh()
  const key = findKey(keys, token)
  if (typeof key === 'string') return invalid(key)
  if (key !== undefined) return key === tried ? BAD_SIGNATURE : check(key)
  const named = token.kid === undefined ? `no key for ${token.algorithm}` : `kid ${quote(token.kid)}`
  const cause = `${named} is not known; ${keys.fault || `key set: ${refreshed}`}`
  return { fault: tokenFault(keys.loaded ? 'invalid' : 'keys_unavailable', cause) }
}

function isAskedForAll({ introspection }: TrustedIssuer): boolean {
  return introspection?.for === 'all'
}
