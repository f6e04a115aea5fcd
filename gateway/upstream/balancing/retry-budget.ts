import { isDeepStrictEqual } from 'node:util'
import type { RetrySettings } from '../../config/upstreams/upstream-group.ts'
import type { UpstreamFault, UpstreamRequest } from '../upstream-client.ts'

/** At most the retries of `SAVED_SECONDS` at `minPerSecond` can be saved, or `SAVED_RETRIES` if that is more. */
const SAVED_SECONDS = 10
const SAVED_RETRIES = 10

/** `denied`: the budget was empty. `failed`: no better response came. */
export type RetryOutcome = 'succeeded' | 'failed' | 'denied'

/** Admits retries for `budgetPercent` of the requests, and in addition `minPerSecond`. Unused retries are saved. */
export class RetryBudget {
  readonly attempts: number
  readonly #settings: RetrySettings
  readonly statuses: ReadonlySet<number>
  readonly #share: number
  readonly #perMs: number
  readonly #most: number
  readonly #clock: () => number
  readonly onOutcome: (outcome: RetryOutcome) => void
  #left: number
  #atMs: number

  constructor(settings: RetrySettings, clock: () => number, onOutcome: (outcome: RetryOutcome) => void) {
    this.attempts = settings.attempts
    this.#settings = settings
    this.statuses = new Set(settings.statuses)
    this.#share = settings.budgetPercent / 100
    this.#perMs = settings.minPerSecond / 1000
    this.#most = Math.max(SAVED_RETRIES, settings.minPerSecond * SAVED_SECONDS)
    this.#left = settings.minPerSecond
    this.#clock = clock
    this.#atMs = clock()
    this.onOutcome = onOutcome
  }

  isOf(settings: RetrySettings): boolean {
    return isDeepStrictEqual(this.#settings, settings)
  }

  deposit(): void {
    this.#left = Math.min(this.#most, this.#left + this.#share)
  }

  take(): boolean {
    const nowMs = this.#clock()
    this.#left = Math.min(this.#most, this.#left + (nowMs - this.#atMs) * this.#perMs)
    this.#atMs = nowMs
    if (this.#left < 1) {
      this.onOutcome('denied')
      return false
    }
    this.#left -= 1
    return true
  }
}

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

export function isRepeatable({ method, body, upgrade }: UpstreamRequest): boolean {
  return SAFE_METHODS.has(method) && body === null && upgrade === undefined
}

/** True for a fault of the upstream. Ask only when there is a connection. */
export function isOfUpstream({ kind, isNeutral }: UpstreamFault): boolean {
  return isNeutral !== true && (kind === 'timeout' || kind === 'broken' || kind === 'malformed')
}
