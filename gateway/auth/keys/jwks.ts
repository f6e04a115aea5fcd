import { quote } from '../tokens/quote.ts'
import { fetchJwks } from './jwks-fetch.ts'
import type { Algorithm } from './signature.ts'
import { isSameKey, kidOf, readKey, type VerificationKey } from './verification-key.ts'

interface KeySetOptions {
  readonly uri: string
  /** @throws when the fetch fails or the signal aborts */
  readonly fetch?: (uri: string, signal: AbortSignal) => Promise<unknown>
  readonly clock: () => number
  /** Monotonic, so that a change of the wall clock does not expire keys. */
  readonly steadyClock?: () => number
  /** How long keys stay in force when they cannot be fetched again. */
  readonly maxStaleMs?: () => number
  /** Reports a problem once while it lasts, and a lasting failure of fetches every 5 minutes. */
  readonly onFault: (cause: string) => void
  readonly onChange?: (before: Iterable<VerificationKey>, now: Iterable<VerificationKey>) => void
}

/** `cooling`: too soon after the last fetch. `failed`: the last good keys stay. */
type Refreshed = 'refreshed' | 'cooling' | 'failed'

export interface LastGoodKeys {
  readonly uri: string
  /** As published. */
  readonly document: unknown
  readonly ageMs: number
}

const COOLING_MS = 10_000
const REFRESH_EVERY_MS = 5 * 60_000
const REPORT_EVERY_MS = 5 * 60_000
const FIRST_RETRY_MS = 250
const LAST_RETRY_MS = 10_000
const MAX_KEYS = 64
const MAX_STALE_MS = 24 * 60 * 60_000

/** Public keys (RFC 7517) by `kid`. The last good ones outlive outages and bad documents for a limited time. */
export class KeySet {
  readonly #options: KeySetOptions
  readonly #steadyClock: () => number
  readonly #stopped = new AbortController()
  #keys: readonly VerificationKey[] = []
  #refreshing: Promise<Refreshed> | undefined
  #askedAtMs = Number.NEGATIVE_INFINITY
  #publishedAtMs = Number.NEGATIVE_INFINITY
  #reported: ReadonlySet<string> = new Set()
  #triedAtMs = 0
  #reportedAtMs = 0
  #timer: NodeJS.Timeout | undefined
  #started = false
  #document: unknown
  /** Each `retire` raises it. The loop of an earlier round ends. */
  #round = 0

  constructor(options: KeySetOptions) {
    this.#options = options
    this.#steadyClock = options.steadyClock ?? (() => performance.now())
  }

  /** False before the first keys, and once they have expired. */
  get loaded(): boolean {
    return this.#keys.length > 0
  }

  /** Finds a key. If several share the `kid`, prefers one for the algorithm (FAPI 2.0 section 5.4.3). */
  find(kid: string, algorithm?: Algorithm): VerificationKey | undefined {
    const named = this.named(kid)
    return named.find(({ checks }) => algorithm !== undefined && checks.has(algorithm)) ?? named[0]
  }

  named(kid: string): readonly VerificationKey[] {
    return this.#keys.filter((key) => key.kid === kid)
  }

  /** The objects stay the same until the keys change. */
  get all(): readonly VerificationKey[] {
    return this.#keys
  }

  fitting(algorithm: Algorithm): readonly VerificationKey[] {
    return this.#keys.filter(({ checks }) => checks.has(algorithm))
  }

  /** Fetches again for unknown keys at most once in 10 s, as their names may be invented. Never throws. */
  refresh(): Promise<Refreshed> {
    if (this.#refreshing !== undefined) return this.#refreshing
    const sinceMs = this.#options.clock() - this.#askedAtMs
    // A clock that was set back must not delay the fetch.
    if (sinceMs >= 0 && sinceMs < COOLING_MS) return Promise.resolve('cooling')
    this.#askedAtMs = this.#options.clock()
    return this.#load()
  }

  get uri(): string {
    return this.#options.uri
  }

  /** Begins the regular fetches. May be called again. */
  start(): void {
    if (this.#started) return
    this.#started = true
    void this.#keepLoading(FIRST_RETRY_MS, this.#round)
  }

  /** Ends the regular fetches. `refresh` still works, for requests in progress. */
  retire(): void {
    this.#started = false
    this.#round += 1
    clearTimeout(this.#timer)
  }

  lastGood(): LastGoodKeys | undefined {
    return this.loaded ? { uri: this.uri, document: this.#document, ageMs: this.ageMs } : undefined
  }

  restore({ document, ageMs }: LastGoodKeys): void {
    this.#swap(readKeys(document, []))
    this.#document = document
    this.#publishedAtMs = this.#steadyClock() - ageMs
  }

  /** Aborts a running fetch and never fetches again. */
  stop(): void {
    this.#stopped.abort()
    this.retire()
  }

  async #keepLoading(retryMs: number, round: number): Promise<void> {
    const failed = (await this.#load()) === 'failed'
    if (round !== this.#round) return
    const nextRetryMs = failed ? Math.min(retryMs * 2, LAST_RETRY_MS) : FIRST_RETRY_MS
    this.#timer = setTimeout(
      () => void this.#keepLoading(nextRetryMs, round),
      failed ? retryMs : REFRESH_EVERY_MS,
    )
    this.#timer.unref()
  }

  #load(): Promise<Refreshed> {
    this.#triedAtMs = this.#steadyClock()
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
    else if (this.loaded && this.ageMs > (this.#options.maxStaleMs?.() ?? MAX_STALE_MS)) {
      this.#change([])
      faults.push(
        'the last good keys are too old: requests that need them are refused until keys can be fetched',
      )
    }
    this.#report(faults, keys === undefined)
    return keys === undefined ? 'failed' : 'refreshed'
  }

  #swap(keys: readonly VerificationKey[]): void {
    this.#change(keys)
    this.#publishedAtMs = this.#steadyClock()
  }

  #change(keys: readonly VerificationKey[]): void {
    const before = this.#keys
    this.#keys = keys
    const isSame = keys.length === before.length && keys.every((key) => before.includes(key))
    if (!isSame) this.#options.onChange?.(before, keys)
  }

  /** On the steady clock. */
  get triedAtMs(): number {
    return this.#triedAtMs
  }

  /** Time since the last successful refresh; infinite before the first. */
  get ageMs(): number {
    return this.#steadyClock() - this.#publishedAtMs
  }

  get fault(): string {
    return [...this.#reported].join('; ')
  }

  async #fetchKeys(faults: string[]): Promise<readonly VerificationKey[] | undefined> {
    try {
      const { fetch = fetchJwks } = this.#options
      const document = await fetch(this.uri, this.#stopped.signal)
      const keys = readKeys(document, faults)
      this.#document = document
      if (keys.length === 0) faults.push('no usable key is published: every signature is refused')
      // Cached verifications refer to the old object, so an unchanged key keeps it.
      return keys.map((key) => this.#keys.find((before) => isSameKey(before, key)) ?? key)
    } catch (error) {
      const state = this.loaded
        ? 'keys cannot be read, so the last good ones stay for a while'
        : 'keys cannot be read, so requests that need them get 503'
      faults.push(`${state}: ${(error as Error).message}`)
      return undefined
    }
  }

  #report(faults: readonly string[], failed: boolean): void {
    const before = this.#reported
    this.#reported = new Set(faults)
    const nowMs = this.#steadyClock()
    const isDue = failed && nowMs - this.#reportedAtMs >= REPORT_EVERY_MS
    for (const fault of this.#reported) {
      if (before.has(fault) && !isDue) continue
      this.#reportedAtMs = nowMs
      this.#options.onFault(fault)
    }
  }
}

/** Reads usable keys and names others in `faults`. No two for one algorithm may share a `kid`. @throws Error */
export function readKeys(document: unknown, faults: string[]): readonly VerificationKey[] {
  const list: unknown = (document as { keys?: unknown } | null)?.keys
  if (!Array.isArray(list)) throw new Error('the document is not a JWK Set: it has no array "keys"')
  if (list.length > MAX_KEYS) throw new Error(`the document has ${list.length} keys, more than ${MAX_KEYS}`)
  const keys: VerificationKey[] = []
  for (const [index, jwk] of list.entries()) {
    const kid = kidOf(jwk)
    const { key, fault } = readKey(jwk)
    if (key === undefined)
      faults.push(
        `key ${typeof kid === 'string' ? quote(kid) : `number ${index + 1}`} is left out: it ${fault}`,
      )
    else if (!keys.some((other) => isSameKey(other, key))) keys.push(key)
  }
  return keys.filter((key) => {
    const namesakes = keys.filter((other) => other.kid === key.kid && !other.key.equals(key.key))
    const shared = key.algorithms.find((one) => namesakes.some(({ checks }) => checks.has(one)))
    if (shared !== undefined)
      faults.push(`key ${quote(key.kid)} is left out: another key for ${shared} has its kid`)
    return shared === undefined
  })
}
