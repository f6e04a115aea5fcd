export interface Take {
  readonly allowed: boolean
  /** Hits that are left now; 0 on refusal. */
  readonly remaining: number
  /** Whole seconds, at least 1: until the oldest hit expires, or on refusal until a retry is allowed. */
  readonly resetSeconds: number
  /** The hit could not be written and was not counted: its request must be refused. */
  readonly unrecorded?: true
  /** Nothing was counted: the store is away, and the row allows every request. */
  readonly uncounted?: true
}

export interface WindowRule {
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time never count. */
  readonly horizonMs: number
}

/**
 * The hits of one key; times are epoch milliseconds in ascending order. At `nowMs` a hit of exactly `nowMs - windowMs` no longer
 * counts.
 */
export interface Window {
  /** True: in slices; false: hit by hit. */
  readonly sliced: boolean
  /** A refused hit is not counted. */
  take(nowMs: number, rule: WindowRule): Take
  /** Counts hits even above the limit. */
  add(hits: Entry, rule: WindowRule): void
  giveBack(): void
  hitsAt(nowMs: number, rule: WindowRule): number
  /** Drops nothing: for readers. */
  countAt(nowMs: number, rule: WindowRule): number
  isIdle(nowMs: number, rule: WindowRule): boolean
  /** Oldest first, expired ones too. */
  entries(): Iterable<Entry>
}

/** For a slice the time of its newest hit. */
export type Entry = readonly [atMs: number, count: number]

/** Larger limits are counted in slices. */
export const MAX_LOGGED = 1_000
const SLICES = 100

export function isSliced(limit: number): boolean {
  return limit > MAX_LOGGED
}

export function openWindow(rule: WindowRule): Window {
  return isSliced(rule.limit) ? new SliceWindow() : new LogWindow()
}

/** Subtracts, because adding would round. */
export function isExpired(atMs: number, nowMs: number, rule: WindowRule): boolean {
  return nowMs - atMs >= rule.windowMs || atMs <= rule.horizonMs
}

/** @param atMs undefined: the whole window */
function secondsUntilExpired(atMs: number | undefined, nowMs: number, rule: WindowRule): number {
  const leftMs = atMs === undefined ? rule.windowMs : rule.windowMs - (nowMs - atMs)
  return Math.max(1, Math.ceil(leftMs / 1000))
}

/** After a whole window all that is counted now has expired. */
export function refusedForCapacity(rule: WindowRule): Take {
  return { allowed: false, remaining: 0, resetSeconds: secondsUntilExpired(undefined, 0, rule) }
}

/** Keeps the time of every hit in a ring buffer that grows and shrinks. */
export class LogWindow implements Window {
  #ring: number[] = []
  #head = 0
  #count = 0

  get sliced(): boolean {
    return false
  }

  take(nowMs: number, rule: WindowRule): Take {
    this.#expire(nowMs, rule)
    if (this.#count >= rule.limit) {
      // More hits than the limit may count after it was lowered: all but limit - 1 must expire.
      const blocking = this.#at(this.#count - rule.limit)
      return { allowed: false, remaining: 0, resetSeconds: secondsUntilExpired(blocking, nowMs, rule) }
    }
    this.#push(nowMs, rule.limit)
    return {
      allowed: true,
      remaining: rule.limit - this.#count,
      resetSeconds: secondsUntilExpired(this.#at(0), nowMs, rule),
    }
  }

  add([atMs, count]: Entry, rule: WindowRule): void {
    for (let i = 0; i < count; i++) this.#push(atMs, rule.limit)
  }

  giveBack(): void {
    this.#count--
  }

  hitsAt(nowMs: number, rule: WindowRule): number {
    this.#expire(nowMs, rule)
    return this.#count
  }

  countAt(nowMs: number, rule: WindowRule): number {
    let expired = 0
    let end = this.#count
    while (expired < end) {
      const middle = (expired + end) >> 1
      if (isExpired(this.#at(middle) ?? 0, nowMs, rule)) expired = middle + 1
      else end = middle
    }
    return this.#count - expired
  }

  isIdle(nowMs: number, rule: WindowRule): boolean {
    const newest = this.#at(this.#count - 1)
    return newest === undefined || isExpired(newest, nowMs, rule)
  }

  *entries(): Iterable<Entry> {
    for (let i = 0; i < this.#count; i++) yield [this.#at(i) ?? 0, 1]
  }

  #at(n: number): number | undefined {
    if (n >= this.#count) return undefined
    const index = this.#head + n
    return this.#ring[index < this.#ring.length ? index : index - this.#ring.length]
  }

  #expire(nowMs: number, rule: WindowRule): void {
    while (this.#count > 0 && isExpired(this.#ring[this.#head] ?? 0, nowMs, rule)) {
      this.#head = this.#head + 1 === this.#ring.length ? 0 : this.#head + 1
      this.#count--
    }
    if (this.#count * 4 < this.#ring.length && this.#ring.length > 4) this.#resize(this.#ring.length >> 1)
  }

  #push(atMs: number, limit: number): void {
    const capacity = this.#ring.length
    if (capacity === 0) {
      this.#ring = [atMs]
      this.#count = 1
      return
    }
    const at = Math.max(atMs, this.#at(this.#count - 1) ?? atMs)
    if (this.#count === capacity) this.#resize(Math.min(capacity * 2, Math.max(limit, capacity + 1)))
    const index = this.#head + this.#count
    this.#ring[index < this.#ring.length ? index : index - this.#ring.length] = at
    this.#count++
  }

  #resize(capacity: number): void {
    const ring = new Array<number>(capacity).fill(Number.NaN)
    for (let i = 0; i < this.#count; i++) ring[i] = this.#at(i) ?? 0
    this.#ring = ring
    this.#head = 0
  }
}

/**
 * Hits in one hundredth of the window expire together, with the newest: up to a hundredth of the window late, never early. Memory does
 * not grow with the limit.
 */
export class SliceWindow implements Window {
  /** The newest hit of each slice, oldest first. */
  readonly #newestMs: number[] = []
  readonly #counts: number[] = []
  #total = 0

  get sliced(): boolean {
    return true
  }

  take(nowMs: number, rule: WindowRule): Take {
    this.#expire(nowMs, rule)
    if (this.#total >= rule.limit) {
      return {
        allowed: false,
        remaining: 0,
        resetSeconds: secondsUntilExpired(this.#blocking(rule.limit), nowMs, rule),
      }
    }
    this.add([nowMs, 1], rule)
    return {
      allowed: true,
      remaining: rule.limit - this.#total,
      resetSeconds: secondsUntilExpired(this.#newestMs[0], nowMs, rule),
    }
  }

  add([atMs, count]: Entry, rule: WindowRule): void {
    const last = this.#newestMs.length - 1
    const newestMs = this.#newestMs[last]
    const sliceMs = rule.windowMs / SLICES
    const at = newestMs === undefined ? atMs : Math.max(atMs, newestMs)
    if (newestMs !== undefined && Math.floor(newestMs / sliceMs) === Math.floor(at / sliceMs)) {
      this.#newestMs[last] = at
      this.#counts[last] = (this.#counts[last] ?? 0) + count
    } else {
      this.#newestMs.push(at)
      this.#counts.push(count)
    }
    this.#total += count
  }

  giveBack(): void {
    const last = this.#counts.length - 1
    this.#total--
    this.#counts[last] = (this.#counts[last] ?? 1) - 1
    if (this.#counts[last] > 0) return
    this.#counts.pop()
    this.#newestMs.pop()
  }

  hitsAt(nowMs: number, rule: WindowRule): number {
    this.#expire(nowMs, rule)
    return this.#total
  }

  countAt(nowMs: number, rule: WindowRule): number {
    let held = this.#total
    for (const [i, newestMs] of this.#newestMs.entries()) {
      if (!isExpired(newestMs, nowMs, rule)) break
      held -= this.#counts[i] ?? 0
    }
    return held
  }

  isIdle(nowMs: number, rule: WindowRule): boolean {
    const newestMs = this.#newestMs.at(-1)
    return newestMs === undefined || isExpired(newestMs, nowMs, rule)
  }

  *entries(): Iterable<Entry> {
    for (const [i, newestMs] of this.#newestMs.entries()) yield [newestMs, this.#counts[i] ?? 0]
  }

  #expire(nowMs: number, rule: WindowRule): void {
    let oldestMs = this.#newestMs[0]
    while (oldestMs !== undefined && isExpired(oldestMs, nowMs, rule)) {
      this.#newestMs.shift()
      this.#total -= this.#counts.shift() ?? 0
      oldestMs = this.#newestMs[0]
    }
  }

  /** The slice that must expire before fewer than `limit` hits count. */
  #blocking(limit: number): number | undefined {
    let left = this.#total
    for (const [i, newestMs] of this.#newestMs.entries()) {
      left -= this.#counts[i] ?? 0
      if (left < limit) return newestMs
    }
    return undefined
  }
}
