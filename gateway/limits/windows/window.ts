/** What taking one hit came to. */
export interface Take {
  readonly allowed: boolean
  /** Hits that would still be let through now; 0 on refusal. */
  readonly remaining: number
  /**
   * Whole seconds, at least 1. When allowed: until the oldest counted hit leaves the window, rounded up. When
   * refused: after this long a retry is let through if nobody else takes.
   */
  readonly resetSeconds: number
  /** The hit could not be kept, so it was not counted and must not be let through, whatever the row allows. */
  readonly unkept?: true
}

/** What a row says of every one of its windows. Immutable; an edit of the row makes a new one. */
export interface Law {
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this time are forgotten: the windows of an earlier edit had already let go of them. */
  readonly horizonMs: number
}

/**
 * The hits of one key. Times are epoch milliseconds with fractions and are given in ascending order. The window is
 * half open: at `nowMs` a hit of exactly `nowMs - windowMs` no longer counts.
 */
export interface Window {
  /** Counts in slices; otherwise every hit by itself. */
  readonly sliced: boolean
  /** Counts a hit if the law lets it through; a refused one leaves no trace. */
  take(nowMs: number, law: Law): Take
  /** Counts hits that were let through earlier, without asking the law. */
  add(hits: Entry, law: Law): void
  /** Takes the newest hit back. */
  giveBack(): void
  /** How many hits count now. */
  held(nowMs: number, law: Law): number
  /** Nothing counts any more: the window may be dropped without anybody noticing. */
  idle(nowMs: number, law: Law): boolean
  /** What a window with another law, or of another run, is built from: oldest first, including what may have expired. */
  entries(): Iterable<Entry>
}

/** Hits let through, and the time they count from: for a slice the time of its newest hit. */
export type Entry = readonly [atMs: number, count: number]

/** Limits up to here are counted hit by hit, exactly; above, in slices. No log grows beyond it. */
export const MAX_LOGGED = 1_000
/** A window above that is counted in this many slices. */
const SLICES = 100

/** Whether windows under `limit` count in slices. */
export function isSliced(limit: number): boolean {
  return limit > MAX_LOGGED
}

/** An empty window of the form that `law` asks for. */
export function openWindow(law: Law): Window {
  return isSliced(law.limit) ? new SliceWindow() : new LogWindow()
}

/** Whether a hit of `atMs` no longer counts. Subtracting first is exact for neighbouring floats, adding is not. */
export function isGone(atMs: number, nowMs: number, law: Law): boolean {
  return nowMs - atMs >= law.windowMs || atMs <= law.horizonMs
}

/** Seconds until the hit of `atMs` leaves the window, rounded up; the whole window when there is no such hit. */
function secondsUntilGone(atMs: number | undefined, nowMs: number, law: Law): number {
  const leftMs = atMs === undefined ? law.windowMs : law.windowMs - (nowMs - atMs)
  return Math.max(1, Math.ceil(leftMs / 1000))
}

/** The answer to a key that there is no room for: after a whole window, whatever is counted now has left. */
export function refusedForRoom(law: Law): Take {
  return { allowed: false, remaining: 0, resetSeconds: secondsUntilGone(undefined, 0, law) }
}

/** The time of every hit, in a ring that grows and shrinks with their number. Exact. */
export class LogWindow implements Window {
  #ring: number[] = []
  #head = 0
  #count = 0

  get sliced(): boolean {
    return false
  }

  take(nowMs: number, law: Law): Take {
    this.#expire(nowMs, law)
    if (this.#count >= law.limit) {
      // After an edit downwards more than `limit` hits may count: all but limit - 1 have to leave.
      const blocking = this.#at(this.#count - law.limit)
      return { allowed: false, remaining: 0, resetSeconds: secondsUntilGone(blocking, nowMs, law) }
    }
    this.#push(nowMs, law.limit)
    return {
      allowed: true,
      remaining: law.limit - this.#count,
      resetSeconds: secondsUntilGone(this.#at(0), nowMs, law),
    }
  }

  add([atMs, count]: Entry, law: Law): void {
    for (let i = 0; i < count; i++) this.#push(atMs, law.limit)
  }

  giveBack(): void {
    this.#count--
  }

  held(nowMs: number, law: Law): number {
    this.#expire(nowMs, law)
    return this.#count
  }

  idle(nowMs: number, law: Law): boolean {
    const newest = this.#at(this.#count - 1)
    return newest === undefined || isGone(newest, nowMs, law)
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

  #expire(nowMs: number, law: Law): void {
    while (this.#count > 0 && isGone(this.#ring[this.#head] ?? 0, nowMs, law)) {
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
    // The ring must stay sorted even when a clock, or a journal, is not.
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
 * Hits of the same hundredth of the window count together, from the time of the newest of them: a hit may be counted
 * for up to one hundredth of the window too long, and never too short. Memory is bounded by the number of slices.
 */
export class SliceWindow implements Window {
  /** Time of the newest hit of each slice, oldest slice first, and how many hits it holds. */
  readonly #newestMs: number[] = []
  readonly #counts: number[] = []
  #total = 0

  get sliced(): boolean {
    return true
  }

  take(nowMs: number, law: Law): Take {
    this.#expire(nowMs, law)
    if (this.#total >= law.limit) {
      return {
        allowed: false,
        remaining: 0,
        resetSeconds: secondsUntilGone(this.#blocking(law.limit), nowMs, law),
      }
    }
    this.add([nowMs, 1], law)
    return {
      allowed: true,
      remaining: law.limit - this.#total,
      resetSeconds: secondsUntilGone(this.#newestMs[0], nowMs, law),
    }
  }

  add([atMs, count]: Entry, law: Law): void {
    const last = this.#newestMs.length - 1
    const newestMs = this.#newestMs[last]
    const sliceMs = law.windowMs / SLICES
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

  held(nowMs: number, law: Law): number {
    this.#expire(nowMs, law)
    return this.#total
  }

  idle(nowMs: number, law: Law): boolean {
    const newestMs = this.#newestMs.at(-1)
    return newestMs === undefined || isGone(newestMs, nowMs, law)
  }

  *entries(): Iterable<Entry> {
    for (const [i, newestMs] of this.#newestMs.entries()) yield [newestMs, this.#counts[i] ?? 0]
  }

  #expire(nowMs: number, law: Law): void {
    let oldestMs = this.#newestMs[0]
    while (oldestMs !== undefined && isGone(oldestMs, nowMs, law)) {
      this.#newestMs.shift()
      this.#total -= this.#counts.shift() ?? 0
      oldestMs = this.#newestMs[0]
    }
  }

  /** The slice that has to leave before fewer than `limit` hits count. */
  #blocking(limit: number): number | undefined {
    let left = this.#total
    for (const [i, newestMs] of this.#newestMs.entries()) {
      left -= this.#counts[i] ?? 0
      if (left < limit) return newestMs
    }
    return undefined
  }
}
