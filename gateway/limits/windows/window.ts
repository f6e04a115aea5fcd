export interface Take {
  readonly allowed: boolean
  /** 0 on refusal, although a smaller cost might pass. */
  readonly remaining: number
  /** At least 1: until the oldest hit expires, or on refusal until a retry is allowed. */
  readonly resetSeconds: number
  /** The hit could not be written: its request must be refused. */
  readonly unrecorded?: true
  /** The store alone counts the row, or it is away and the row allows every request. */
  readonly uncounted?: true
  readonly next?: Take
  /** The take in the next row that counts the request. */
  readonly beside?: Take
}

export function isAllowed({ allowed, next }: Take): boolean {
  return allowed && (next === undefined || isAllowed(next))
}

export interface WindowRule {
  readonly limit: number
  readonly windowMs: number
  /** Hits at or before this epoch time never count. */
  readonly horizonMs: number
  /** Length of a slice, whose hits are one entry; 0: each hit is an entry. */
  readonly sliceMs: number
  /** Factor of the plan that `limit` is for. */
  readonly factor: number | undefined
}

/** A hit, or the hits of a slice with the time of the newest. */
export type Entry = readonly [atMs: number, count: number]

/** The largest limit with a log. */
const MAX_LOGGED = 1_000
const SLICES = 100

export function windowRule(
  limit: number,
  windowMs: number,
  horizonMs: number | null = null,
  factor?: number,
): WindowRule {
  const sliceMs = limit > MAX_LOGGED ? windowMs / SLICES : 0
  return { limit, windowMs, horizonMs: horizonMs ?? Number.NEGATIVE_INFINITY, sliceMs, factor }
}

export function plannedLimit(limit: number, factor: number): number {
  // Rounds first, because 100 times 0.29 is 28.999999999999996.
  return Math.max(1, Math.floor(Number((limit * factor).toPrecision(15))))
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

/** Refuses for a whole window, after which all present hits have expired. */
export function refusedForCapacity(rule: WindowRule): Take {
  return { allowed: false, remaining: 0, resetSeconds: secondsUntilExpired(undefined, 0, rule) }
}

/**
 * The hits of one key, in ascending order. A hit of exactly `nowMs - windowMs` no longer counts.
 *
 * A limit up to `MAX_LOGGED` has a log of each hit. A larger one has `SLICES` slices, so that its memory is
 * bounded. The hits of a slice expire with its newest: late, but never early. An edit converts between the two.
 */
export class Window {
  /** Times of the entries, in a ring that grows and shrinks. */
  #times: number[] = []
  /** Hits of the entries, in the same places; undefined: a log, where each entry is one hit. */
  #counts: number[] | undefined
  #head = 0
  #entries = 0
  #hits = 0
  #rule: WindowRule | undefined

  /** Factor of the last take's plan. */
  get factor(): number | undefined {
    return this.#rule?.factor
  }

  /** @param isCounted false: only decides */
  take(nowMs: number, rule: WindowRule, cost = 1, isCounted = true): Take {
    this.#rule = rule
    this.#expire(nowMs, rule)
    if (this.#counts === undefined && rule.sliceMs > 0) this.#convert([], rule)
    if (this.#hits + cost > rule.limit) {
      const blocking = this.#blocking(rule.limit - cost + 1)
      return { allowed: false, remaining: 0, resetSeconds: secondsUntilExpired(blocking, nowMs, rule) }
    }
    // Converts only now, because a log with more hits than the limit would have no bound.
    if (isCounted && this.#counts !== undefined && rule.sliceMs === 0) this.#convert(undefined, rule)
    if (isCounted) this.add(nowMs, cost, rule)
    return {
      allowed: true,
      remaining: rule.limit - this.#hits,
      resetSeconds: secondsUntilExpired(this.#timeOf(0), nowMs, rule),
    }
  }

  /** Counts hits even above the limit. */
  add(atMs: number, count: number, rule: WindowRule): void {
    // V8 keeps the numbers of an `Entry` as doubles. One double in a window would make every `Take` slower.
    const hits = Math.round(count)
    const isTooLong = rule.sliceMs > 0 || this.#hits + hits > MAX_LOGGED
    if (this.#counts === undefined && isTooLong) this.#convert([], rule)
    const newestMs = this.#timeOf(this.#entries - 1)
    const at = Math.max(atMs, newestMs ?? atMs)
    this.#hits += hits
    if (this.#counts === undefined) {
      for (let i = 0; i < hits; i++) this.#push(at, 1, rule.limit)
      return
    }
    const sliceMs = rule.sliceMs || rule.windowMs / SLICES
    if (newestMs === undefined || Math.floor(newestMs / sliceMs) !== Math.floor(at / sliceMs)) {
      this.#push(at, hits, rule.limit)
      return
    }
    const last = this.#placeOf(this.#entries - 1)
    this.#times[last] = at
    this.#counts[last] = (this.#counts[last] ?? 0) + hits
  }

  /** Undoes the last allowed take. */
  giveBack(cost: number): void {
    this.#hits -= cost
    if (this.#counts === undefined) {
      this.#entries -= cost
      return
    }
    const last = this.#placeOf(this.#entries - 1)
    const left = this.#countIn(last) - cost
    if (left === 0) this.#entries--
    else this.#counts[last] = left
  }

  /** The number of hits that count now. Leaves the window as it is. */
  countAt(nowMs: number, rule: WindowRule): number {
    if (this.isIdle(nowMs, rule)) return 0
    let hits = this.#hits
    for (let i = 0; isExpired(this.#timeOf(i) ?? nowMs, nowMs, rule); i++)
      hits -= this.#countIn(this.#placeOf(i))
    return hits
  }

  isIdle(nowMs: number, rule: WindowRule): boolean {
    const newestMs = this.#timeOf(this.#entries - 1)
    return newestMs === undefined || isExpired(newestMs, nowMs, rule)
  }

  /** Includes expired ones. */
  *entries(): Iterable<Entry> {
    for (let i = 0; i < this.#entries; i++) yield [this.#timeOf(i) ?? 0, this.#countIn(this.#placeOf(i))]
  }

  #timeOf(entry: number): number | undefined {
    return entry < 0 || entry >= this.#entries ? undefined : this.#times[this.#placeOf(entry)]
  }

  #placeOf(entry: number): number {
    const place = this.#head + entry
    return place < this.#times.length ? place : place - this.#times.length
  }

  #countIn(place: number): number {
    return this.#counts?.[place] ?? 1
  }

  /** The time of the entry that must expire before fewer than `limit` hits count. */
  #blocking(limit: number): number | undefined {
    if (this.#counts === undefined) return this.#timeOf(this.#hits - limit)
    let left = this.#hits
    for (let i = 0; i < this.#entries; i++) {
      left -= this.#counts[this.#placeOf(i)] ?? 1
      if (left < limit) return this.#timeOf(i)
    }
    return undefined
  }

  #expire(nowMs: number, rule: WindowRule): void {
    while (this.#entries > 0 && isExpired(this.#times[this.#head] ?? 0, nowMs, rule)) {
      this.#hits -= this.#countIn(this.#head)
      this.#head = this.#head + 1 === this.#times.length ? 0 : this.#head + 1
      this.#entries--
    }
    const capacity = this.#times.length
    if (this.#entries * 4 < capacity && capacity > 4) this.#resize(capacity >> 1)
  }

  /** @param counts undefined: into a log */
  #convert(counts: number[] | undefined, rule: WindowRule): void {
    const entries = [...this.entries()]
    this.#times = []
    this.#counts = counts
    this.#head = this.#entries = this.#hits = 0
    for (const [atMs, count] of entries) this.add(atMs, count, rule)
  }

  #push(atMs: number, count: number, limit: number): void {
    const capacity = this.#times.length
    if (this.#entries === capacity)
      this.#resize((capacity < limit ? Math.min(capacity * 2, limit) : capacity * 2) || 1)
    const place = this.#placeOf(this.#entries++)
    this.#times[place] = atMs
    if (this.#counts !== undefined) this.#counts[place] = count
  }

  /** Each array is made at its own place in the code: otherwise V8 would store doubles in both. */
  #resize(capacity: number): void {
    const times = new Array<number>(capacity).fill(Number.NaN)
    const counts = this.#counts && new Array<number>(capacity).fill(0)
    for (let i = 0; i < this.#entries; i++) {
      const place = this.#placeOf(i)
      times[i] = this.#times[place] ?? 0
      if (counts !== undefined) counts[i] = this.#countIn(place)
    }
    this.#times = times
    this.#counts = counts
    this.#head = 0
  }
}
