import { LRUCache } from 'lru-cache'
import type { IntrospectionSettings } from '../../config/settings.ts'
import { sha256 } from '../keys/thumbprint.ts'
import { type Asked, Questions, refusesOne, type Unasked, WHY_UNASKED } from '../questions.ts'
import { type ClaimRules, readClaims } from '../tokens/claims.ts'
import type { Caller } from '../tokens/fair-turns.ts'
import type { JsonObject } from '../tokens/jws.ts'
import {
  invalid,
  type OrFault,
  type TokenFault,
  tokenFault,
  type Verification,
  type VerifiedToken,
} from '../tokens/verification.ts'
import {
  type AskedIssuer,
  claimsOfAnswer,
  faultOfAnswer,
  isOfUnsupportedType,
  readAnswer,
  readSignedAnswer,
} from './answer.ts'
import { introspectionRequest } from './introspection-request.ts'

export type IntrospectionOutcome = 'active' | 'inactive' | 'invalid' | 'failed' | 'breaker_open' | 'too_many'

export interface IntrospectorOptions {
  readonly settings: IntrospectionSettings
  readonly clock: () => number
  readonly steadyClock?: () => number
  readonly count: (outcome: IntrospectionOutcome) => void
  /** Reports why the endpoint cannot be asked, once in each outage. */
  readonly onFault: (cause: string) => void
  readonly ask?: ReturnType<typeof introspectionRequest>
}

interface Known {
  readonly verification: VerifiedToken
  readonly expMs: number
  /** On the steady clock: setting back the wall clock must not keep an answer for longer. */
  freshUntilMs: number
}

const CACHE_SIZE = 10_000
const CACHE_WITHOUT_EXP_MS = 5_000
/** A shorter token may occur in other texts by chance. */
const MIN_TOKEN_CHARS = 8
/** A token that was refused before does not count as a guess again. */
const REFUSED: Verification = {
  fault: tokenFault('inactive', 'the issuer refused it when it was last asked'),
}

/** Asks an issuer whether its opaque tokens are active (RFC 7662). */
export class Introspector {
  readonly #issuer: AskedIssuer
  readonly #rules: ClaimRules
  readonly #options: IntrospectorOptions
  readonly #ask: (token: string) => Promise<Parameters<typeof readAnswer>[0]>
  readonly #steadyClock: () => number
  /** Also has tokens whose answers are no longer fresh, because a token that was active is no guess. */
  readonly #active = new LRUCache<string, Known>({ max: CACHE_SIZE })
  /** When each refusal is forgotten, on the steady clock. */
  readonly #refused = new LRUCache<string, number>({ max: CACHE_SIZE })
  readonly #questions: Questions<Verification>
  #isReported = false

  constructor(issuer: AskedIssuer, options: IntrospectorOptions) {
    this.#issuer = issuer
    this.#rules = rulesForAnswers(issuer)
    this.#options = options
    this.#ask = options.ask ?? introspectionRequest(options.settings, issuer.issuer)
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
    this.#questions = new Questions({
      timeoutMs: options.settings.timeoutMs,
      steadyClock: this.#steadyClock,
      unasked: (why) => this.#unasked(why),
    })
  }

  verifyKnown(token: string): VerifiedToken | undefined {
    return this.#known(sha256(token))
  }

  wasActive(token: string): boolean {
    return this.#active.has(sha256(token))
  }

  #known(name: string): VerifiedToken | undefined {
    const known = this.#active.get(name)
    if (known === undefined) return undefined
    if (this.#steadyClock() < known.freshUntilMs && this.#options.clock() < known.expMs)
      return known.verification
    known.freshUntilMs = Number.NEGATIVE_INFINITY
    return undefined
  }

  /** Returns a promise only when the endpoint must be asked. Never throws or rejects. */
  verify(token: string, caller: Caller): Verification | Promise<Verification> {
    const name = sha256(token)
    const known = this.#known(name)
    if (known !== undefined) return known
    const refusedUntilMs = this.#refused.get(name)
    if (refusedUntilMs !== undefined && this.#steadyClock() < refusedUntilMs) return REFUSED
    return this.#questions.put({
      name,
      caller,
      ask: () => this.#verifyNew(token, name),
      again: () => this.verify(token, caller),
    })
  }

  #unasked(why: Unasked): Verification {
    if (why !== 'client_gone') this.#options.count(why)
    return unavailable(`${this.#options.settings.url} was not asked: ${WHY_UNASKED[why]}`)
  }

  async #verifyNew(token: string, name: string): Promise<Asked<Verification>> {
    const { settings, clock, count } = this.#options
    let answer: JsonObject
    let statusCode = 0
    try {
      const response = await this.#ask(token)
      statusCode = response.statusCode
      if (isOfUnsupportedType(response)) {
        this.#isReported = false
        const fault = tokenFault('invalid', 'the endpoint does not know tokens of its kind')
        return this.#refuse(name, 'invalid', fault)
      }
      const asked = { issuer: this.#issuer, clientId: settings.clientId, nowMs: clock() }
      answer = settings.signed ? await readSignedAnswer(response, asked) : readAnswer(response)
    } catch (error) {
      return { answer: this.#failed((error as Error).message), isThere: refusesOne(statusCode) }
    }
    this.#isReported = false
    if (answer.active !== true) {
      const reason = this.#active.has(name) ? 'inactive' : 'invalid'
      return this.#refuse(name, 'inactive', tokenFault(reason, 'the issuer says that it is not active'))
    }
    const { verification, expMs, fault } = this.#read(withoutToken(answer, token))
    if (fault !== undefined) return this.#refuse(name, 'invalid', fault)
    const cacheMs =
      answer.exp === undefined ? Math.min(settings.cacheMs, CACHE_WITHOUT_EXP_MS) : settings.cacheMs
    this.#active.set(name, { verification, expMs, freshUntilMs: this.#steadyClock() + cacheMs })
    count('active')
    return { answer: verification, isThere: true }
  }

  #read(answer: JsonObject): OrFault<{ readonly verification: VerifiedToken; readonly expMs: number }> {
    const kind = faultOfAnswer(answer, this.#rules)
    if (kind !== undefined) return invalid(kind)
    const nowMs = this.#options.clock()
    const claims = claimsOfAnswer(answer, this.#rules, nowMs)
    const { verification, fault } = readClaims(claims, this.#rules, nowMs)
    return fault === undefined ? { verification, expMs: Number(claims.exp) * 1000 } : { fault }
  }

  #refuse(name: string, outcome: 'inactive' | 'invalid', fault: TokenFault): Asked<Verification> {
    const { settings, count } = this.#options
    count(outcome)
    if (settings.negativeCacheMs > 0) this.#refused.set(name, this.#steadyClock() + settings.negativeCacheMs)
    return { answer: { fault }, isThere: true }
  }

  #failed(cause: string): Verification {
    const { settings, count, onFault } = this.#options
    count('failed')
    if (!this.#isReported) onFault(`the issuer cannot be asked, so its tokens get 503: ${cause}`)
    this.#isReported = true
    return unavailable(`${settings.url}: ${cause}`)
  }
}

/** Adds the claim names of RFC 7662 section 2.2. No claim with an id is needed: the token itself is an id. */
function rulesForAnswers(issuer: ClaimRules): ClaimRules {
  const { tokens } = issuer
  const both = (names: readonly string[], name: string) => [...new Set([...names, name])]
  return {
    ...issuer,
    tokens: {
      ...tokens,
      scopeClaims: both(tokens.scopeClaims, 'scope'),
      clientClaims: both(tokens.clientClaims, 'client_id'),
      subjectClaims: both(tokens.subjectClaims, 'sub'),
      idClaims: [],
    },
  }
}

/** Removes the token, which some issuers repeat: a secret must not become a name, nor reach the log. */
function withoutToken(answer: JsonObject, token: string): JsonObject {
  const holds = (text: string) => text === token || (token.length >= MIN_TOKEN_CHARS && text.includes(token))
  return JSON.parse(JSON.stringify(answer), (_name, value) =>
    typeof value === 'string' && holds(value) ? ['the token itself'] : value,
  )
}

function unavailable(cause: string): Verification {
  return { fault: tokenFault('introspection_unavailable', cause) }
}
