import { withoutNames } from '../edge/rules/path-template.ts'
import { type Caller, limitKey } from '../limits/limit-key.ts'
import { countedPath, type LimitRow, windowsOf } from '../limits/table/limit-table.ts'
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
  /** True for a cluster: each take is a command of its own there. */
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
   * Counts the hits of a request at all gateways together: in all windows of the rows that are enforced, or in none. `done` is called
   * once, and before this returns when the store is known to be away. @param key, caller as in `Limiter.take`
   */
  take(row: SharedRow, key: string, done: TakeDone, caller?: Caller): void {
    const { breaker, counts, keys, isCluster, timers } = this.#options
    if (breaker.isOpen) {
      counts.undecidedTakes++
      done(undefined)
      return
    }
    const keyOf = ({ identity, per }: SharedRow) =>
      keys.keyOf(identity, per && caller ? limitKey(per, caller.principal, caller.address) : key)
    if (isCluster) {
      const alone = new TakeBatch(breaker, counts, () => undefined)
      alone.add(row, keyOf, done)
      breaker.send(alone)
      return
    }
    if (this.#batch === undefined) {
      this.#batch = new TakeBatch(breaker, counts, this.#onOver)
      if (this.#underWay === 0) timers.soon(this.#flushIfFree)
    }
    this.#batch.add(row, keyOf, done)
    if (this.#batch.size >= MAX_BATCH) this.#flush()
  }

  readonly #onOver = (): void => {
    this.#underWay--
    if (this.#underWay > 0 || this.#batch === undefined) return
    const { breaker, timers } = this.#options
    if (breaker.isOpen) this.#flush()
    else timers.soon(this.#flushIfFree)
  }

  /** Sends the batch unless one is under way. A full batch has gone out early, so there may be none to send. */
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
  readonly #takes: (readonly [row: SharedRow, done: TakeDone])[] = []

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

  add(row: SharedRow, keyOf: (row: SharedRow) => string, done: TakeDone): void {
    this.#takes.push([row, done])
    for (let one: SharedRow | undefined = row; one !== undefined; one = one.beside) {
      const key = keyOf(one)
      for (let window: SharedRow | undefined = one; window !== undefined; window = window.next) {
        const { limit, windowMs, cost = 1, suffix } = window
        const isJoined = window.next !== undefined || one.isJoined === true
        this.#keys.push(suffix === undefined ? key : key + suffix)
        this.#rules.push(isJoined ? `-${limit}` : String(limit), String(windowMs))
        this.#rules.push(one.isFollower ? `-${cost}` : String(cost))
      }
    }
  }

  fits(reply: StoreReply): boolean {
    return Array.isArray(reply) && reply.length === 2 * this.#keys.length && reply.every(Number.isSafeInteger)
  }

  done(reply: StoreReply | undefined): void {
    this.#onOver()
    if (reply === undefined) {
      this.#counts.undecidedTakes += this.#takes.length
      for (const [, told] of this.#takes) told(undefined)
      return
    }
    this.#counts.takes += this.#takes.length
    const results = (reply as readonly number[]).values()
    for (const [row, told] of this.#takes) told(takeOf(row, results))
  }

  /** Sends the batch once more with its script, which EVAL leaves with the server. */
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

/** @param results of the script; the next ones are those of the row */
function takeOf({ next, beside }: SharedRow, results: Iterator<number>): Take {
  const remaining = results.next().value as number
  const resetSeconds = results.next().value as number
  const take = { allowed: remaining >= 0, remaining: Math.max(0, remaining), resetSeconds }
  if (next === undefined && beside === undefined) return take
  return {
    ...take,
    ...(next && { next: takeOf(next, results) }),
    ...(beside && { beside: takeOf(beside, results) }),
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
  /** End of the key in the store, for one of several windows. The longest has none, so it keeps its counts when other windows come or go. */
  readonly suffix?: string
  /** The next window of the row, under the same identity. */
  readonly next?: SharedRow
  /** The next row that counts the request. */
  readonly beside?: SharedRow
  /** `per` of a row beside another. */
  readonly per?: LimitRow['per']
  /** True when the row counts together with the row beside it: in both or in none. */
  readonly isJoined?: boolean
  /** True when the row counts only what the rows before it let pass. */
  readonly isFollower?: boolean
}

/**
 * Makes the shared row of a limit. Its identity is path and methods alone, so that gateways that start later count in the same place.
 * After an edit of these the counts begin anew.
 *
 * @param first row of the list
 */
export function sharedRowOf(row: LimitRow, first = row): SharedRow {
  const { methods, cost, per, mode, beside } = row
  const sorted = methods === undefined ? null : [...methods].sort()
  const identity = `limit ${JSON.stringify([withoutNames(countedPath(row)), sorted])}`
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
  ) as SharedRow
  if (beside === undefined && first === row) return shared
  return {
    ...shared,
    ...(first !== row && { per }),
    isJoined: mode === 'enforce' && beside?.mode === 'enforce',
    isFollower: mode === 'shadow' && first.mode === 'enforce',
    ...(beside && { beside: sharedRowOf(beside, first) }),
  }
}
