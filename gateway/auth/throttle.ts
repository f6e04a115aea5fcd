import { LRUCache } from 'lru-cache'
import type { TokenFaultReason } from './tokens/verification.ts'

/** A sliding window per key, for example the Counters of a limit. */
interface FailureCounter {
  /**
   * Counts one hit of `key`. `remaining`: how many more are allowed; `resetSeconds`: whole seconds, rounded up, until one
   * more is. Times are milliseconds that never go back.
   */
  take(
    key: string,
    nowMs: number,
  ): { readonly allowed: boolean; readonly remaining: number; readonly resetSeconds: number }
}

/** The same failures seen by several gateways. */
export interface FailureGroup {
  /** How all gateways name a caller. */
  keyOf(caller: string): string
  /** Tells the other gateways of a failure. @param key as `keyOf` gives it */
  publish(key: string): void
}

export interface ThrottleOptions {
  readonly counter: FailureCounter
  /** The clock of the counter. */
  readonly clock: () => number
  /** Callers blocked at once; when full, the one blocked first is dropped. */
  readonly maxBlocked?: number
  /** Undefined: this gateway is the only one. */
  readonly group?: FailureGroup | undefined
}

const MAX_BLOCKED = 65_536

/**
 * Slows down the guessing of credentials: a caller with too many failures is blocked until the oldest failure expires. Tokens
 * that were verified before and client certificates pass: they are no guesses. A success does not reset the count, because a
 * caller with one good credential could then guess without limit.
 */
export class AuthThrottle {
  readonly #options: ThrottleOptions
  /** When each block ends, by key. A dropped caller is blocked again at its next failure: the counter still has them. */
  readonly #blocked: LRUCache<string, number>

  constructor(options: ThrottleOptions) {
    this.#options = options
    this.#blocked = new LRUCache({ max: options.maxBlocked ?? MAX_BLOCKED })
  }

  /** To be called before a credential is checked. @returns `Retry-After` in seconds; undefined when not blocked */
  blockedSeconds(key: string): number | undefined {
    if (this.#blocked.size === 0) return undefined
    const name = this.#nameOf(key)
    const untilMs = this.#blocked.get(name)
    if (untilMs === undefined) return undefined
    const leftMs = untilMs - this.#options.clock()
    if (leftMs > 0) return Math.ceil(leftMs / 1000)
    this.#blocked.delete(name)
    return undefined
  }

  /** The caller presented a bad credential. */
  failed(key: string): void {
    const { clock, group } = this.#options
    const name = this.#nameOf(key)
    this.apply(name, clock())
    group?.publish(name)
  }

  /** The same, seen by another gateway at `nowMs`. @param name of the caller, in a group by `keyOf` */
  apply(name: string, nowMs: number): void {
    const { allowed, remaining, resetSeconds } = this.#options.counter.take(name, nowMs)
    if (!allowed || remaining === 0) this.#blocked.set(name, nowMs + resetSeconds * 1000)
  }

  /** Blocked callers and when each block ends, for the process that takes over. */
  blocked(): [key: string, untilMs: number][] {
    return [...this.#blocked.entries()].reverse()
  }

  /** Takes over the blocked callers of the process before. */
  block(blocked: Iterable<readonly [key: string, untilMs: number]>): void {
    for (const [key, untilMs] of blocked) this.#blocked.set(key, untilMs)
  }

  #nameOf(key: string): string {
    return this.#options.group?.keyOf(key) ?? key
  }
}

/**
 * Whether a refused token may have been a guess. Expired and revoked tokens were once good: an app that repeats one must
 * not block others at its address. Missing keys are not the caller's fault.
 */
export function mayBeGuess(reason: TokenFaultReason): boolean {
  return reason === 'malformed' || reason === 'invalid'
}
