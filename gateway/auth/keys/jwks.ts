import { quote } from '../tokens/quote.ts'
import { fetchJwks } from './jwks-fetch.ts'
import { isSameKey, readKey, type VerificationKey } from './verification-key.ts'

export interface KeySetOptions {
  /** Where the issuer publishes its JWK Set. */
  readonly uri: string
  /** Gives the parsed document, or throws saying why not; gives up when the signal does. */
  readonly fetch?: (uri: string, signal: AbortSignal) => Promise<unknown>
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Milliseconds that only ever pass: a clock that jumps ends no trust. */
  readonly steadyClock?: () => number
  /** Keys that could not be fetched again for this long are believed no more. */
  readonly maxStaleMs?: number
  /** Told what was wrong with the document or with a key in it; once for as long as it stays wrong. */
  readonly onFault: (cause: string) => void
}

/** `refreshed`: the set is what the issuer publishes now. `cooling`: not asked again so soon. `failed`: last good stays. */
export type Refreshed = 'refreshed' | 'cooling' | 'failed'

const COOLING_MS = 10_000
const REFRESH_EVERY_MS = 5 * 60_000
const FIRST_RETRY_MS = 250
const LAST_RETRY_MS = 10_000
const MAX_KEYS = 64
const MAX_STALE_MS = 24 * 60 * 60_000

/**
 * The issuer's public keys (RFC 7517), by `kid`. What was loaded last stays in force through an outage and bad
 * documents, but not for ever; a key that the issuer no longer publishes is gone with the next successful refresh, also
 * when it publishes none.
 */
export class KeySet {
  readonly #options: KeySetOptions
  readonly #fetch: (uri: string, signal: AbortSignal) => Promise<unknown>
  readonly #steadyClock: () => number
  readonly #stopped = new AbortController()
  #keys: ReadonlyMap<string, VerificationKey> = new Map()
  #refreshing: Promise<Refreshed> | undefined
  #askedAtMs = Number.NEGATIVE_INFINITY
  /** On the steady clock; when what is in force was last what the issuer published. */
  #publishedAtMs = 0
  #reported: ReadonlySet<string> = new Set()
  #timer: NodeJS.Timeout | undefined

  constructor(options: KeySetOptions) {
    this.#options = options
    this.#fetch = options.fetch ?? fetchJwks
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
  }

  /** Whether there are keys to believe. */
  get loaded(): boolean {
    return this.#keys.size > 0
  }

  /** The key of that name. The same object for as long as the issuer publishes the same key. */
  find(kid: string): VerificationKey | undefined {
    return this.#keys.get(kid)
  }

  /**
   * Asks the issuer again because a token names an unknown key: one fetch at a time, and at most one in 10 s, so that
   * made-up names cost the issuer nothing. Joins a fetch that is under way. Never throws.
   */
  refresh(): Promise<Refreshed> {
    if (this.#refreshing !== undefined) return this.#refreshing
    const sinceMs = this.#options.clock() - this.#askedAtMs
    // A clock that was set back must not leave it cooling until it has caught up.
    if (sinceMs >= 0 && sinceMs < COOLING_MS) return Promise.resolve('cooling')
    this.#askedAtMs = this.#options.clock()
    return this.#load()
  }

  /** Loads at once in the background, again after 250 ms doubling to 10 s while that fails, else each 5 minutes. */
  start(): void {
    void this.#keepLoading(FIRST_RETRY_MS)
  }

  /** Gives up a fetch under way and asks no more; for good. The keys stay. */
  stop(): void {
    this.#stopped.abort()
    clearTimeout(this.#timer)
  }

  async #keepLoading(retryMs: number): Promise<void> {
    const failed = (await this.#load()) === 'failed'
    if (this.#stopped.signal.aborted) return
    const nextRetryMs = failed ? Math.min(retryMs * 2, LAST_RETRY_MS) : FIRST_RETRY_MS
    this.#timer = setTimeout(() => void this.#keepLoading(nextRetryMs), failed ? retryMs : REFRESH_EVERY_MS)
    this.#timer.unref()
  }

  #load(): Promise<Refreshed> {
    this.#refreshing ??= this.#fetchAndSwap().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  async #fetchAndSwap(): Promise<Refreshed> {
    const faults: string[] = []
    const keys = await this.#fetchKeys(faults)
    if (this.#stopped.signal.aborted) return 'failed'
    if (keys !== undefined) this.#swap(keys)
    else if (this.loaded && this.#isStale()) {
      this.#keys = new Map()
      faults.push(
        'the last good keys are too old: no token of this issuer is accepted until they can be fetched',
      )
    }
    this.#report(faults)
    return keys === undefined ? 'failed' : 'refreshed'
  }

  #swap(keys: ReadonlyMap<string, VerificationKey>): void {
    this.#keys = keys
    this.#publishedAtMs = this.#steadyClock()
  }

  #isStale(): boolean {
    return this.#steadyClock() - this.#publishedAtMs > (this.#options.maxStaleMs ?? MAX_STALE_MS)
  }

  /** Undefined when the document cannot take the place of what is loaded; then at least one fault says why. */
  async #fetchKeys(faults: string[]): Promise<ReadonlyMap<string, VerificationKey> | undefined> {
    try {
      const document = await this.#fetch(this.#options.uri, this.#stopped.signal)
      const keys = readKeys(document, faults)
      if (keys.size === 0) faults.push('the issuer publishes no usable key: none of its tokens is accepted')
      for (const [kid, key] of keys) {
        const before = this.#keys.get(kid)
        // Verdicts in the cache hold on to the object: an unchanged key must not cost them.
        if (before !== undefined && isSameKey(before, key)) keys.set(kid, before)
      }
      return keys
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException
      // Where every address of a host refuses, Node gives an AggregateError with a code and no message.
      faults.push(`keys not refreshed, last good stay for a while: ${message || code}`)
      return undefined
    }
  }

  #report(faults: readonly string[]): void {
    const before = this.#reported
    this.#reported = new Set(faults)
    for (const fault of this.#reported) {
      if (!before.has(fault)) this.#options.onFault(fault)
    }
  }
}

/**
 * Every usable key of a JWK Set. A key that cannot be used is left out and named in `faults`, so that one odd key does
 * not cost the others; a name that occurs twice names none of them (FAPI 2.0 section 5.4.3).
 *
 * @throws Error when the document is no JWK Set, or one of more than 64 keys
 */
function readKeys(document: unknown, faults: string[]): Map<string, VerificationKey> {
  const list: unknown = (document as { keys?: unknown } | null)?.keys
  if (!Array.isArray(list)) throw new Error('the document is not a JWK Set: it has no array "keys"')
  if (list.length > MAX_KEYS) throw new Error(`the document has ${list.length} keys, more than ${MAX_KEYS}`)
  const repeated = repeatedKids(list)
  for (const kid of repeated) faults.push(`key ${quote(kid)} left out: its kid occurs more than once`)
  const keys = new Map<string, VerificationKey>()
  for (const [index, jwk] of list.entries()) {
    const kid = kidOf(jwk)
    if (repeated.has(kid)) continue
    const { key, fault } = readKey(jwk)
    if (key === undefined)
      faults.push(`key ${typeof kid === 'string' ? quote(kid) : `number ${index + 1}`} left out: it ${fault}`)
    else keys.set(key.kid, key)
  }
  return keys
}

function repeatedKids(list: readonly unknown[]): ReadonlySet<unknown> {
  const seen = new Set<unknown>()
  const repeated = new Set<unknown>()
  for (const kid of list.map(kidOf)) {
    if (typeof kid === 'string' && seen.has(kid)) repeated.add(kid)
    seen.add(kid)
  }
  return repeated
}

function kidOf(jwk: unknown): unknown {
  return (jwk as { kid?: unknown } | null | undefined)?.kid
}
