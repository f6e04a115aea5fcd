import { withoutNames } from '../edge/rules/path-template.ts'
import { type LimitRow, windowsOf } from '../limits/table/limit-table.ts'
import type { Take } from '../limits/windows/window.ts'
import type { StoreReply } from './connection/store-link.ts'
import type { StoreBreaker, StoreCall, StoreTimers } from './store-breaker.ts'
import type { StoreCounts } from './store-counts.ts'
import type { StoreKeys } from './store-keys.ts'
import { TAKE_SCRIPT, TAKE_SHA } from './take-script.ts'

/** Must not throw. @param take undefined: the store is away and has perhaps counted the hit; the row's `onStoreFailure` decides */
export type TakeDone = (take: Take | undefined) => void

interface SharedTakesOptions {
  readonly breaker: StoreBreaker
  readonly keys: StoreKeys
  readonly counts: StoreCounts
  readonly timers: StoreTimers
  /** Each take is a command of its own then. */
  readonly isCluster: boolean
}

/** Windows in one command: bounds how long the script holds up other gateways, at about 5 µs each. */
const MAX_BATCH = 128

/** Takes from shared limits. One command has the takes of a turn of the event loop, and those that came while another was under way. */
export class SharedTakes {
  readonly #options: SharedTakesOptions
  #batch: TakeBatch | undefined
  #underWay = 0

  constructor(options: SharedTakesOptions) {
    this.#options = options
  }

  /**
   * Counts the hits of a request of `key` in all windows of the row, or in none, at all gateways together. `done` is called once, at once when the
   * store is known to be away.
   */
  take(row: SharedRow, key: string, done: TakeDone): void {
    const { breaker, counts, keys, isCluster, timers } = this.#options
    if (breaker.isOpen) {
      counts.undecidedTakes++
      done(undefined)
      return
    }
    const storeKey = keys.keyOf(row.identity, key)
    if (isCluster) {
      const alone = new TakeBatch(breaker, counts, () => undefined)
      alone.add(storeKey, row, done)
      breaker.send(alone)
      return
    }
    if (this.#batch === undefined) {
      this.#batch = new TakeBatch(breaker, counts, this.#onOver)
      if (this.#underWay === 0) timers.soon(this.#flushIfFree)
    }
    this.#batch.add(storeKey, row, done)
    if (this.#batch.size >= MAX_BATCH) this.#flush()
  }

  readonly #onOver = (): void => {
    this.#underWay--
    if (this.#underWay > 0 || this.#batch === undefined) return
    const { breaker, timers } = this.#options
    if (breaker.isOpen) this.#flush()
    else timers.soon(this.#flushIfFree)
  }

  /** A full batch goes out early, so there may be none now, or one that waits for the reply to it. */
  readonly #flushIfFree = (): void => {
    if (this.#underWay === 0) this.#flush()
  }

  #flush(): void {
    const batch = this.#batch
    if (batch === undefined) return
    this.#batch = undefined
    this.#underWay++
    this.#options.breaker.send(batch)
  }
}

class TakeBatch implements StoreCall {
  readonly #breaker: StoreBreaker
  readonly #counts: StoreCounts
  readonly #onOver: () => void
  readonly #keys: string[] = []
  readonly #rules: string[] = []
  readonly #dones: TakeDone[] = []

  constructor(breaker: StoreBreaker, counts: StoreCounts, onOver: () => void) {
    this.#breaker = breaker
    this.#counts = counts
    this.#onOver = onOver
  }

  get size(): number {
    return this.#keys.length
  }

  get key(): string {
    return this.#keys[0] ?? ''
  }

  get args(): readonly string[] {
    return ['EVALSHA', TAKE_SHA, ...this.#operands()]
  }

  add(key: string, row: SharedRow, done: TakeDone): void {
    for (let window: SharedRow | undefined = row; window !== undefined; window = window.next) {
      const { limit, windowMs, cost, suffix, next } = window
      this.#keys.push(suffix === undefined ? key : key + suffix)
      const signed = next === undefined ? String(limit) : `-${limit}`
      this.#rules.push(signed, String(windowMs), cost === undefined ? '1' : String(cost))
    }
    this.#dones.push(done)
  }

  fits(reply: StoreReply): boolean {
    return Array.isArray(reply) && reply.length === 2 * this.#keys.length && reply.every(Number.isSafeInteger)
  }

  done(reply: StoreReply | undefined): void {
    this.#onOver()
    if (reply === undefined) {
      this.#counts.undecidedTakes += this.#dones.length
      for (const done of this.#dones) done(undefined)
      return
    }
    this.#counts.takes += this.#dones.length
    const results = reply as readonly number[]
    let at = 0
    const nextTake = (): Take => {
      const hasNext = this.#rules[3 * at]?.startsWith('-')
      const remaining = results[2 * at] as number
      const resetSeconds = results[2 * at + 1] as number
      at++
      const take = { allowed: remaining >= 0, remaining: Math.max(0, remaining), resetSeconds }
      return hasNext ? { ...take, next: nextTake() } : take
    }
    for (const done of this.#dones) done(nextTake())
  }

  /** Once: EVAL leaves the script with the server. */
  scriptMissing(): void {
    this.#counts.scriptReloads++
    this.#breaker.send({
      args: ['EVAL', TAKE_SCRIPT, ...this.#operands()],
      key: this.key,
      fits: (reply) => this.fits(reply),
      done: (reply) => this.done(reply),
    })
  }

  #operands(): readonly string[] {
    return [String(this.#keys.length), ...this.#keys, ...this.#rules]
  }
}

/** A limit that all gateways count together. Immutable. */
export interface SharedRow {
  /** Equal at all gateways and after each edit that keeps the counts; holds no NUL. */
  readonly identity: string
  readonly limit: number
  readonly windowMs: number
  /** Hits of a take; default 1. */
  readonly cost?: number
  /** The end of the key in the store, for one of several windows. The longest window has none, so it keeps its counts when others come or go. */
  readonly suffix?: string
  /** The next window of the row, under the same identity. */
  readonly next?: SharedRow
}

/** Counts belong to path and methods. After an edit of these they begin anew: gateways that start later must count in the same place. */
export function sharedRowOf(row: LimitRow): SharedRow {
  const { path, methods, cost } = row
  const sorted = methods === undefined ? null : [...methods].sort()
  const identity = `limit ${JSON.stringify([withoutNames(path), sorted])}`
  const windows = windowsOf(row)
  const longestMs = Math.max(...windows.map(({ windowMs }) => windowMs))
  const shared = windows.reduceRight<SharedRow | undefined>(
    (next, { limit, windowMs }) => ({
      ...{ identity, limit, windowMs },
      ...(cost > 1 && { cost }),
      ...(windowMs < longestMs && { suffix: `:${windowMs}` }),
      ...(next && { next }),
    }),
    undefined,
  )
  return shared as SharedRow
}
