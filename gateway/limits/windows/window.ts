/** The result of asking a limit for one hit. */
export interface Take {
  readonly allowed: boolean
  /** Hits that would still be let through now; 0 on refusal. */
  readonly remaining: number
  /**
   * Whole seconds, rounded up, at least 1. When allowed: until the oldest counted hit expires. When refused: until a
   * retry is allowed, if nothing else is counted for the key before.
   */
  readonly resetSeconds: number
  /** The hit could not be written to the journal: it was not counted, and its request must be refused. */
  readonly unrecorded?: true
  /** The shared store is away and the row allows every request meanwhile: nothing was counted. */
  readonly uncounted?: true
}

/** The limit that all windows of a row share. Immutable; an edit of the row makes a new one. */
export interface WindowRule {
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time never count: they had expired before the row was edited. */
  readonly horizonMs: number
}

/**
 * The hits of one key. Times are epoch milliseconds with fractions and are given in ascending order. The window is
 * half open: at `nowMs` a hit of exactly `nowMs - windowMs` no longer counts.
 */
export interface Window {
  /** True when hits are counted in slices, false when each is kept by itself. */
  readonly sliced: boolean
  /** Counts a hit if the rule allows it; a refused hit is not counted. */
  take(nowMs: number, rule: WindowRule): Take
  /** Counts hits that were allowed earlier or elsewhere, even above the limit. */
  add(hits: Entry, rule: WindowRule): void
  /** Removes the newest hit. */
  giveBack(): void
  hitsAt(nowMs: number, rule: WindowRule): number
  /** The same, without dropping the expired hits: for who only looks. */
  countAt(nowMs: number, rule: WindowRule): number
  /** Whether every hit has expired, so that the window can be dropped. */
  isIdle(nowMs: number, rule: WindowRule): boolean
  /** All hits, oldest first, including expired ones: for a copy under another rule or in another run. */
  entries(): Iterable<Entry>
}

/** Some hits with one time: for a slice the time of its newest hit. */
export type Entry = readonly [atMs: number, count: number]

/** Limits up to this are counted exactly, hit by hit; larger ones in slices. */
export const MAX_LOGGED = 1_000
/** Slices per window. */
const SLICES = 100

export function isSliced(limit: number): boolean {
  return limit > MAX_LOGGED
}

/** An empty window, of the kind that the rule's limit needs. */
export function openWindow(rule: WindowRule): Window {
  return isSliced(rule.limit) ? new SliceWindow() : new LogWindow()
}

/** Whether a hit at `atMs` no longer counts. Subtracts, because adding would round. */
export function isExpired(atMs: number, nowMs: number, rule: WindowRule): boolean {
  return nowMs - atMs >= rule.windowMs || atMs <= rule.horizonMs
}

/** Seconds until the hit at `atMs` expires, rounded up; without a hit, the whole window. */
function secondsUntilExpired(atMs: number | undefined, nowMs: number, rule: WindowRule): number {
  const leftMs = atMs === undefined ? rule.windowMs : rule.windowMs - (nowMs - atMs)
  return Math.max(1, Math.ceil(leftMs / 1000))
}

/** The result for a key that there is no memory for: after a whole window, all that is counted now has expired. */
export function refusedForCapacity(rule: WindowRule): Take {
  return { allowed: false, remaining: 0, resetSeconds: secondsUntilExpired(undefined, 0, rule) }
}

/** Exact: keeps the time of every hit, in a ring buffer that grows and shrinks. */
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
      // After the limit was lowered more hits may count than it allows: all but limit - 1 have to expire.
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
    // The ring is sorted: half by half to the oldest hit that counts.
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

  /** The time of the nth oldest hit. */
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
    // The ring stays sorted even if the clock or the journal is not.
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
 * Hits in the same hundredth of the window expire together, with the newest of them. So a hit may count up to one
 * hundredth of the window too long, never too short. Memory is bounded by the number of slices.
 */
export class SliceWindow implements Window {
  /** Per slice, oldest first: the time of its newest hit; `#counts` has the number of its hits. */
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

  /** The time of the slice that must expire before fewer than `limit` hits count. */
  #blocking(limit: number): number | undefined {
    let left = this.#total
    for (const [i, newestMs] of this.#newestMs.entries()) {
      left -= this.#counts[i] ?? 0
      if (left < limit) return newestMs
    }
    return undefined
  }
}
