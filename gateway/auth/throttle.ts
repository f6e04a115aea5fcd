import { LRUCache } from 'lru-cache'
import type { TokenFaultReason } from './tokens/token-fault.ts'

/** A sliding window for each key; what the limits count with fits. */
export interface FailureCounter {
  /**
   * Counts one hit of `key`. `remaining`: how many more would be let through; `resetSeconds`: whole seconds, rounded up,
   * until one more is. Times are milliseconds that never run back.
   */
  take(
    key: string,
    nowMs: number,
  ): { readonly allowed: boolean; readonly remaining: number; readonly resetSeconds: number }
}

/** What several threads need that count the same failures, each in a copy of its own. */
export interface ThrottleSharing {
  enter(): void
  leave(): void
  catchUp(): void
  /** Tells the others of a failure. */
  publish(key: string, atMs: number): void
}

export interface ThrottleOptions {
  readonly counter: FailureCounter
  /** The clock of the counter. */
  readonly clock: () => number
  /** Callers kept away at the same time; the one kept away longest ago makes room. */
  readonly maxBlocked?: number
  /** Undefined: this thread is the only one. */
  readonly sharing?: ThrottleSharing | undefined
}

const MAX_BLOCKED = 65_536

/**
 * Slows the guessing of credentials down: after as many failures as the counter lets through, no credential of that
 * caller is looked at until the oldest of them has left the window. A success changes nothing, or a caller with one good
 * credential could guess without end.
 */
export class AuthThrottle {
  readonly #options: ThrottleOptions
  /** Until when, by key. One that had to make room is back after a single further failure: the counter still knows. */
  readonly #blocked: LRUCache<string, number>

  constructor(options: ThrottleOptions) {
    this.#options = options
    this.#blocked = new LRUCache({ max: options.maxBlocked ?? MAX_BLOCKED })
  }

  /** To be asked before a presented credential is looked at: undefined to go on, or `Retry-After` in seconds. */
  blockedSeconds(key: string): number | undefined {
    this.#options.sharing?.catchUp()
    const untilMs = this.#blocked.get(key)
    if (untilMs === undefined) return undefined
    const leftMs = untilMs - this.#options.clock()
    if (leftMs > 0) return Math.ceil(leftMs / 1000)
    this.#blocked.delete(key)
    return undefined
  }

  /** A credential of that caller was presented and was no good. */
  failed(key: string): void {
    const { clock, sharing } = this.#options
    sharing?.enter()
    try {
      const nowMs = clock()
      this.apply(key, nowMs)
      sharing?.publish(key, nowMs)
    } finally {
      sharing?.leave()
    }
  }

  /** The same happened at `nowMs`, on another thread. */
  apply(key: string, nowMs: number): void {
    const { allowed, remaining, resetSeconds } = this.#options.counter.take(key, nowMs)
    if (!allowed || remaining === 0) this.#blocked.set(key, nowMs + resetSeconds * 1000)
  }

  /** Who is kept away, and until when: for the throttle of another thread. */
  blocked(): [key: string, untilMs: number][] {
    return [...this.#blocked.entries()].reverse()
  }

  /** Keeps away who was kept away there. */
  block(blocked: Iterable<readonly [key: string, untilMs: number]>): void {
    for (const [key, untilMs] of blocked) this.#blocked.set(key, untilMs)
  }
}

/**
 * Whether a refused token may have been a guess. One that has expired or was revoked teaches nothing, and an app that
 * brings one again must not keep its neighbours at the same address away; keys that are missing are no fault of it.
 */
export function mayBeGuess(reason: TokenFaultReason): boolean {
  return reason === 'malformed' || reason === 'invalid'
}
