import { withoutNames } from '../edge/rules/path-template.ts'
import { type Caller, limitKey } from '../limits/limit-key.ts'
import { countedPath, type LimitRow, windowsOf } from '../limits/table/limit-table.ts'
import type { Take } from '../limits/windows/window.ts'
import type { StoreReply } from './connection/store-link.ts'
import type { StoreBreaker, StoreCall, StoreTimers } from './store-breaker.ts'
import type { StoreCounts } from './store-counts.ts'
import type { StoreKeys } from './store-keys.ts'
import { TAKE_SCRIPT, TAKE_SHA } from './take-script.ts'

/** Called once. Must not throw. @param take undefined when the store is away; it may have counted the hit */
export type TakeDone = (take: Take | undefined) => void

interface SharedTakesOptions {
  readonly breaker: StoreBreaker
  readonly keys: StoreKeys
  readonly counts: StoreCounts
  readonly timers: StoreTimers
  /** True for a cluster, where all keys of a command must have one hash tag, so each take is its own command. */
  readonly isCluster: boolean
}

/** Each window takes about 5 µs, for which the script holds up other gateways. */
const MAX_BATCH = 128

/** Sends the takes of a turn of the event loop in one command, and the takes that come during a command in the next. */
export class SharedTakes {
  readonly #options: SharedTakesOptions
  #batch: TakeBatch | undefined
  #underWay = 0

  constructor(options: SharedTakesOptions) {
    this.#options = options
  }

  /** Counts a request in all windows of the enforced rows, or in none. @param key, caller as in `Limiter.take` */
  take(row: SharedRow, key: string, done: TakeDone, caller?: Caller): void {
    const { breaker, counts, isCluster, timers } = this.#options
    if (breaker.isOpen) {
      counts.undecidedTakes++
      done(undefined)
      return
    }
    if (isCluster) {
      const alone = new TakeBatch(this.#options, () => undefined)
      alone.add(row, key, done, caller)
      breaker.send(alone)
      return
    }
    if (this.#batch === undefined) {
      this.#batch = new TakeBatch(this.#options, this.#onOver)
      if (this.#underWay === 0) timers.soon(this.#flushIfFree)
    }
    this.#batch.add(row, key, done, caller)
    if (this.#batch.size >= MAX_BATCH) this.#flush()
  }

  readonly #onOver = (): void => {
    this.#underWay--
    if (this.#underWay > 0 || this.#batch === undefined) return
    const { breaker, timers } = this.#options
    if (breaker.isOpen) this.#flush()
    else timers.soon(this.#flushIfFree)
  }

  /** Does nothing while a full batch, which goes out early, is under way. */
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
  readonly #options: SharedTakesOptions
  readonly #onOver: () => void
  readonly #keys: string[] = []
  readonly #rules: string[] = []
  readonly #rows: SharedRow[] = []
  readonly #dones: TakeDone[] = []
  #read = 0

  constructor(options: SharedTakesOptions, onOver: () => void) {
    this.#options = options
    this.#onOver = onOver
  }

  get size(): number {
    return this.#keys.length
  }

  get key(): string {
    return this.#keys[0] ?? ''
  }

  get args(): readonly string[] {
    return ['EVALSHA', TAKE_SHA, String(this.#keys.length), ...this.#keys, ...this.#rules]
  }

  get script(): string {
    return TAKE_SCRIPT
  }

  add(row: SharedRow, key: string, done: TakeDone, caller: Caller | undefined): void {
    this.#rows.push(row)
    this.#dones.push(done)
    for (let one: SharedRow | undefined = row; one !== undefined; one = one.beside) {
      const { identity, per } = one
      const name = per && caller ? limitKey(per, caller.principal, caller.address) : key
      const place = this.#options.keys.keyOf(identity, name)
      for (let window: SharedRow | undefined = one; window !== undefined; window = window.next) {
        this.#keys.push(window.suffix === undefined ? place : place + window.suffix)
        this.#rules.push(window.rule)
      }
    }
  }

  fits(reply: StoreReply): boolean {
    return Array.isArray(reply) && reply.length === 2 * this.#keys.length && reply.every(Number.isSafeInteger)
  }

  done(reply: StoreReply | undefined): void {
    const { counts } = this.#options
    this.#onOver()
    if (reply === undefined) {
      counts.undecidedTakes += this.#dones.length
      for (const told of this.#dones) told(undefined)
      return
    }
    counts.takes += this.#dones.length
    const results = reply as readonly number[]
    for (const [i, row] of this.#rows.entries()) this.#dones[i]?.(this.#takeOf(row, results))
  }

  #takeOf({ next, beside }: SharedRow, results: readonly number[]): Take {
    const remaining = results[this.#read++] as number
    const resetSeconds = results[this.#read++] as number
    const take = { allowed: remaining >= 0, remaining: Math.max(0, remaining), resetSeconds }
    if (next === undefined && beside === undefined) return take
    return {
      ...take,
      ...(next && { next: this.#takeOf(next, results) }),
      ...(beside && { beside: this.#takeOf(beside, results) }),
    }
  }
}

export interface SharedRow {
  /** Equal at all gateways, and after each edit that keeps the counts. Holds no NUL. */
  readonly identity: string
  readonly rule: string
  /** End of the key in the store. The longest window has none, so it keeps its counts when other windows come or go. */
  readonly suffix?: string
  readonly next?: SharedRow
  readonly beside?: SharedRow
  /** Only in a row beside another. */
  readonly per?: LimitRow['per']
}

/**
 * Identifies a limit by path and methods alone, so that gateways that start later count in the same place. An edit of
 * the path or methods begins new counts.
 *
 * @param first row of the list
 */
export function sharedRowOf(row: LimitRow, first = row): SharedRow {
  const { methods, cost, per, mode, beside } = row
  const sorted = methods === undefined ? null : [...methods].sort()
  const identity = `limit ${JSON.stringify([withoutNames(countedPath(row)), sorted])}`
  const windows = windowsOf(row)
  const longestMs = Math.max(...windows.map(({ windowMs }) => windowMs))
  // Enforced rows count together. A row in shadow mode counts only what the enforced rows let pass.
  const isJoined = mode === 'enforce' && beside?.mode === 'enforce'
  const isFollower = mode === 'shadow' && first.mode === 'enforce'
  const shared = windows.reduceRight<SharedRow | undefined>(
    (next, { limit, windowMs }) => ({
      identity,
      rule: `${isJoined || next ? '-' : ''}${limit} ${windowMs} ${isFollower ? '-' : ''}${cost}`,
      ...(windowMs < longestMs && { suffix: `:${windowMs}` }),
      ...(next && { next }),
    }),
    undefined,
  ) as SharedRow
  return {
    ...shared,
    ...(first !== row && { per }),
    ...(beside && { beside: sharedRowOf(beside, first) }),
  }
}
