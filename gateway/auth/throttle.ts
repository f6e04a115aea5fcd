import { LRUCache } from 'lru-cache'
import type { TokenFaultReason } from './tokens/verification.ts'

interface FailureCounter {
  /** `resetSeconds`: time until one more failure is allowed. */
  take(
    key: string,
    nowMs: number,
  ): { readonly allowed: boolean; readonly remaining: number; readonly resetSeconds: number }
}

export interface FailureGroup {
  keyOf(caller: string): string
  publish(key: string): void
}

export interface ThrottleOptions {
  readonly counter: FailureCounter
  /** The clock of the counter. */
  readonly clock: () => number
  /** How many callers may be blocked at a time. One more drops the caller seen least recently. */
  readonly maxBlocked?: number
  /** Undefined: this gateway is the only one. */
  readonly group?: FailureGroup | undefined
}

const MAX_BLOCKED = 65_536

/** Blocks callers after too many failures. A success resets nothing: a guesser may own one good credential. */
export class AuthThrottle {
  readonly #options: ThrottleOptions
  /** When the oldest failure of each blocked caller expires. Undefined before the first block, to save 2 MB. */
  #blocked: LRUCache<string, number> | undefined

  constructor(options: ThrottleOptions) {
    this.#options = options
  }

  /** @returns `Retry-After` in seconds; undefined when not blocked */
  blockedSeconds(key: string): number | undefined {
    if (this.#blocked === undefined || this.#blocked.size === 0) return undefined
    const name = this.#nameOf(key)
    const untilMs = this.#blocked.get(name)
    if (untilMs === undefined) return undefined
    const leftMs = untilMs - this.#options.clock()
    if (leftMs > 0) return Math.ceil(leftMs / 1000)
    this.#blocked.delete(name)
    return undefined
  }

  failed(key: string): void {
    const { clock, group } = this.#options
    const name = this.#nameOf(key)
    this.apply(name, clock())
    group?.publish(name)
  }

  /** Counts a failure, also one of another gateway. @param name as `keyOf` gives it */
  apply(name: string, nowMs: number): void {
    const { allowed, remaining, resetSeconds } = this.#options.counter.take(name, nowMs)
    if (!allowed || remaining === 0) this.block([[name, nowMs + resetSeconds * 1000]])
  }

  blocked(): [key: string, untilMs: number][] {
    return [...(this.#blocked?.entries() ?? [])].reverse()
  }

  block(blocked: Iterable<readonly [key: string, untilMs: number]>): void {
    for (const [key, untilMs] of blocked) {
      this.#blocked ??= new LRUCache({ max: this.#options.maxBlocked ?? MAX_BLOCKED })
      this.#blocked.set(key, untilMs)
    }
  }

  #nameOf(key: string): string {
    return this.#options.group?.keyOf(key) ?? key
  }
}

/** True for faults of guessed tokens. An app that repeats an expired or revoked token must not block its address. */
export function mayBeGuess(reason: TokenFaultReason): boolean {
  return reason === 'malformed' || reason === 'invalid'
}
