import { LRUCache } from 'lru-cache'
import type { IntrospectionSettings } from '../../config/settings.ts'
import { networkOf } from '../../edge/rules/network.ts'
import { sha256 } from '../keys/thumbprint.ts'
import { type ClaimRules, readClaims } from '../tokens/claims.ts'
import type { Caller } from '../tokens/fair-turns.ts'
import type { JsonObject } from '../tokens/jws.ts'
import {
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
import { introspectionRequest, MAX_CALLS } from './introspection-request.ts'

/** The outcome of one question. `breaker_open` and `too_many`: it was not asked. */
export type IntrospectionOutcome = 'active' | 'inactive' | 'invalid' | 'failed' | 'breaker_open' | 'too_many'

export interface IntrospectorOptions {
  readonly settings: IntrospectionSettings
  readonly clock: () => number
  readonly steadyClock?: () => number
  readonly count: (outcome: IntrospectionOutcome) => void
  /** Reports why the endpoint cannot be asked, once while it lasts. */
  readonly onFault: (cause: string) => void
  /** Default: by HTTP. */
  readonly ask?: ReturnType<typeof introspectionRequest>
}

interface Known {
  readonly verification: VerifiedToken
  readonly expMs: number
  /** On the steady clock, so that a wall clock that is set back does not keep an answer. */
  readonly freshUntilMs: number
}

const CACHE_SIZE = 10_000
/** For active tokens that do not say when they expire. */
const CACHE_WITHOUT_EXP_MS = 5_000
/** Leaves room for others beside the invented tokens of one network; further ones wait. */
const MAX_CALLS_OF_NETWORK = 16
/** Questions of one network that wait. Each holds a token and a request, even when its client has gone. */
const MAX_WAITING_OF_NETWORK = 256
const FAILURES_TO_OPEN = 5
/** Statuses by which an endpoint may refuse one token, such as a very long one. The endpoint works, so it gets no pause. */
const REFUSES_TOKEN: ReadonlySet<number> = new Set([400, 403, 413, 414, 422, 431])
/** The letters of a shorter token occur in other texts by chance. */
const MIN_TOKEN_CHARS = 8
const FIRST_PAUSE_MS = 1_000
const LAST_PAUSE_MS = 30_000
/** The verdict on a token that the issuer has refused before. It does not count as a guess again. */
const REFUSED: Verification = { fault: tokenFault('inactive', 'refused when it was last asked about') }

/**
 * Asks an issuer whether its opaque tokens are active (RFC 7662), once for all requests with one token. Answers are cached.
 * After five failures in a row the endpoint gets a pause, of at most 30 s. Other networks may ask until it fails for one of
 * them too: the tokens of one caller must not lock out the others.
 */
export class Introspector {
  readonly #issuer: AskedIssuer
  readonly #rules: ClaimRules
  readonly #options: IntrospectorOptions
  readonly #ask: (token: string) => Promise<Parameters<typeof readAnswer>[0]>
  readonly #steadyClock: () => number
  readonly #active: LRUCache<string, Known>
  /** When each refusal is forgotten, on the steady clock. */
  readonly #refused: LRUCache<string, number>
  readonly #pending = new Map<string, Promise<Verification>>()
  readonly #callsOfNetworks = new Map<string, number>()
  /** Tokens of each network that wait until they may ask. */
  readonly #waiting = new Map<string, (() => void)[]>()
  /** The first two networks whose questions failed since the last success. */
  readonly #failedNetworks = new Set<string>()
  #failuresInRow = 0
  #isReported = false
  #pauseMs = FIRST_PAUSE_MS
  #pausedUntilMs = Number.NEGATIVE_INFINITY

  constructor(issuer: AskedIssuer, options: IntrospectorOptions) {
    this.#issuer = issuer
    this.#rules = rulesForAnswers(issuer)
    this.#options = options
    this.#ask = options.ask ?? introspectionRequest(options.settings, issuer.issuer)
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
    this.#active = new LRUCache({ max: CACHE_SIZE })
    this.#refused = new LRUCache({ max: CACHE_SIZE })
  }

  verifyKnown(token: string): VerifiedToken | undefined {
    return this.#known(sha256(token))
  }

  #known(name: string): VerifiedToken | undefined {
    const known = this.#active.get(name)
    if (known === undefined) return undefined
    if (this.#steadyClock() < known.freshUntilMs && this.#options.clock() < known.expMs)
      return known.verification
    this.#active.delete(name)
    return undefined
  }

  /** A promise only when the endpoint must be asked. Neither throws nor rejects. */
  verify(token: string, caller: Caller): Verification | Promise<Verification> {
    const name = sha256(token)
    const known = this.#known(name)
    if (known !== undefined) return known
    const refusedUntilMs = this.#refused.get(name)
    if (refusedUntilMs !== undefined && this.#steadyClock() < refusedUntilMs) return REFUSED
    const pending = this.#pending.get(name)
    if (pending !== undefined) return pending
    const network = networkOf(caller.address)
    const calls = this.#callsOfNetworks.get(network) ?? 0
    if (
      this.#steadyClock() < this.#pausedUntilMs &&
      (this.#failedNetworks.size > 1 || this.#failedNetworks.has(network))
    )
      return this.#notAsked('breaker_open', 'it has failed too often and is given time to recover')
    if (this.#pending.size >= MAX_CALLS || calls >= MAX_CALLS_OF_NETWORK)
      return this.#wait(token, caller, network)
    const asked = this.#verifyNew(token, { name, network }).finally(() => {
      this.#pending.delete(name)
      const left = (this.#callsOfNetworks.get(network) ?? 1) - 1
      if (left === 0) this.#callsOfNetworks.delete(network)
      else this.#callsOfNetworks.set(network, left)
      this.#askNext()
    })
    this.#pending.set(name, asked)
    this.#callsOfNetworks.set(network, calls + 1)
    return asked
  }

  /** Waits until another question is answered. No question is asked for a token that has waited longer than a question may take. */
  #wait(token: string, caller: Caller, network: string): Verification | Promise<Verification> {
    const waiting = this.#waiting.get(network)
    if (waiting !== undefined && waiting.length >= MAX_WAITING_OF_NETWORK) return this.#tooMany()
    const { promise, resolve } = Promise.withResolvers<Verification>()
    const untilMs = this.#steadyClock() + this.#options.settings.timeoutMs
    const ask = () => {
      if (caller.closed) resolve(this.#unasked('its client has gone'))
      else if (this.#steadyClock() < untilMs) resolve(this.verify(token, caller))
      else resolve(this.#tooMany())
    }
    if (waiting === undefined) this.#waiting.set(network, [ask])
    else waiting.push(ask)
    return promise
  }

  /** Lets those that wait ask while there is room: the networks in turn. */
  #askNext(): void {
    for (const [network, waiting] of this.#waiting) {
      if (this.#pending.size >= MAX_CALLS) return
      if ((this.#callsOfNetworks.get(network) ?? 0) >= MAX_CALLS_OF_NETWORK) continue
      const ask = waiting.shift()
      // Re-inserted last; the iteration comes to it again.
      this.#waiting.delete(network)
      if (waiting.length > 0) this.#waiting.set(network, waiting)
      ask?.()
    }
  }

  #tooMany(): Verification {
    return this.#notAsked('too_many', 'too many tokens are being asked about')
  }

  #notAsked(outcome: 'breaker_open' | 'too_many', cause: string): Verification {
    this.#options.count(outcome)
    return this.#unasked(cause)
  }

  #unasked(cause: string): Verification {
    return unavailable(`${this.#options.settings.url} was not asked: ${cause}`)
  }

  async #verifyNew(
    token: string,
    { name, network }: { readonly name: string; readonly network: string },
  ): Promise<Verification> {
    const { settings, clock, count } = this.#options
    // While one question tries whether the endpoint is back, no other is asked.
    const isTrial = this.#failuresInRow >= FAILURES_TO_OPEN
    if (isTrial) this.#pausedUntilMs = this.#steadyClock() + settings.timeoutMs
    let answer: JsonObject
    let statusCode = 0
    try {
      const response = await this.#ask(token)
      statusCode = response.statusCode
      if (isOfUnsupportedType(response)) {
        this.#succeeded()
        return this.#refuse(name, 'invalid', invalid('the endpoint does not know tokens of its kind'))
      }
      const asked = { issuer: this.#issuer, clientId: settings.clientId, nowMs: clock() }
      answer = settings.signed ? await readSignedAnswer(response, asked) : readAnswer(response)
    } catch (error) {
      if (REFUSES_TOKEN.has(statusCode)) this.#endPause()
      else this.#countFailure(network, isTrial)
      return this.#failed((error as Error).message)
    }
    this.#succeeded()
    if (answer.active !== true)
      return this.#refuse(name, 'inactive', invalid('the issuer says that it is not active'))
    const { verification, expMs, fault } = this.#read(withoutToken(answer, token))
    if (fault !== undefined) return this.#refuse(name, 'invalid', fault)
    const cacheMs =
      answer.exp === undefined ? Math.min(settings.cacheMs, CACHE_WITHOUT_EXP_MS) : settings.cacheMs
    if (cacheMs > 0 && expMs > clock())
      this.#active.set(name, { verification, expMs, freshUntilMs: this.#steadyClock() + cacheMs })
    count('active')
    return verification
  }

  #read(answer: JsonObject): OrFault<{ readonly verification: VerifiedToken; readonly expMs: number }> {
    const kind = faultOfAnswer(answer, this.#rules)
    if (kind !== undefined) return { fault: invalid(kind) }
    const nowMs = this.#options.clock()
    const claims = claimsOfAnswer(answer, this.#rules, nowMs)
    const { verification, fault } = readClaims(claims, this.#rules, nowMs)
    return fault === undefined ? { verification, expMs: Number(claims.exp) * 1000 } : { fault }
  }

  #refuse(name: string, outcome: 'inactive' | 'invalid', fault: TokenFault): Verification {
    const { settings, count } = this.#options
    count(outcome)
    if (settings.negativeCacheMs > 0) this.#refused.set(name, this.#steadyClock() + settings.negativeCacheMs)
    return { fault }
  }

  #succeeded(): void {
    this.#isReported = false
    this.#endPause()
  }

  #endPause(): void {
    this.#failuresInRow = 0
    this.#failedNetworks.clear()
    this.#pauseMs = FIRST_PAUSE_MS
    this.#pausedUntilMs = Number.NEGATIVE_INFINITY
  }

  #countFailure(network: string, isTrial: boolean): void {
    this.#failuresInRow += 1
    if (this.#failedNetworks.size < 2) this.#failedNetworks.add(network)
    if (isTrial) this.#pauseMs = Math.min(this.#pauseMs * 2, LAST_PAUSE_MS)
    if (isTrial || this.#failuresInRow === FAILURES_TO_OPEN)
      this.#pausedUntilMs = this.#steadyClock() + this.#pauseMs
  }

  #failed(cause: string): Verification {
    const { settings, count, onFault } = this.#options
    count('failed')
    if (!this.#isReported) onFault(`cannot be asked, so that its tokens get 503: ${cause}`)
    this.#isReported = true
    return unavailable(`${settings.url}: ${cause}`)
  }
}

/** The names of RFC 7662 section 2.2 count beside the issuer's own. No id is needed: the token is one. */
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

/** Some issuers repeat the token in an answer. It is a secret: neither a name nor a text for the log. */
function withoutToken(answer: JsonObject, token: string): JsonObject {
  const holds = (text: string) => text === token || (token.length >= MIN_TOKEN_CHARS && text.includes(token))
  return JSON.parse(JSON.stringify(answer), (_name, value) =>
    typeof value === 'string' && holds(value) ? ['the token itself'] : value,
  )
}

function invalid(cause: string): TokenFault {
  return tokenFault('invalid', cause)
}

function unavailable(cause: string): Verification {
  return { fault: tokenFault('introspection_unavailable', cause) }
}
