import type { Origin } from './origin.ts'

/** Ranks, from the most to the least preferred. */
const READY = 0
const AVOIDED = 1
/** Health checks fail. */
const DOWN = 2
/** No connection could be made. */
const BACKING_OFF = 3

export class Choice<Kind extends Origin> {
  readonly origins: readonly Kind[]
  readonly first: Kind
  #turn = 0

  constructor(origins: readonly Kind[]) {
    const [first] = origins
    if (first === undefined) throw new TypeError('upstreams: at least one is needed')
    this.origins = origins
    this.first = first
  }

  /**
   * Chooses the least busy of the upstreams in the best state, in turn among equals. When all back off, it chooses the
   * one whose back-off ends first. Returns undefined when each is in `tried` or has an open circuit breaker.
   */
  next(tried: readonly Kind[]): Kind | undefined {
    const chosen = this.#best(tried)
    chosen?.health.chosen()
    return chosen
  }

  hasAny(tried: readonly Kind[]): boolean {
    return this.origins.some((origin) => !tried.includes(origin) && origin.breaker?.admits() !== false)
  }

  /** Undefined when a circuit breaker admits an exchange now. */
  get waitMs(): number | undefined {
    let waitMs = Number.POSITIVE_INFINITY
    for (const { breaker } of this.origins) waitMs = Math.min(waitMs, breaker?.waitMs ?? 0)
    return waitMs > 0 ? waitMs : undefined
  }

  #best(tried: readonly Kind[]): Kind | undefined {
    const { origins } = this
    this.#turn = (this.#turn + 1) % origins.length
    let best = this.#scan(tried, BACKING_OFF)
    if (best?.slowStart === undefined) return best
    const passedOver = [...tried]
    while (best.slowStart?.takesTurn(best.health.recoveredAtMs) === false) {
      passedOver.push(best)
      const other = this.#scan(passedOver, rankOf(best))
      if (other === undefined) return best
      best = other
    }
    return best
  }

  #scan(skipped: readonly Kind[], worst: number): Kind | undefined {
    const { origins } = this
    let best: Kind | undefined
    let bestRank = worst
    for (let i = 0; i < origins.length; i++) {
      const origin = origins[(this.#turn + i) % origins.length] as Kind
      if (skipped.includes(origin) || origin.breaker?.admits() === false) continue
      const rank = rankOf(origin)
      if (rank > bestRank || (rank === bestRank && best !== undefined && !isBetter(origin, best, rank)))
        continue
      best = origin
      bestRank = rank
    }
    return best
  }
}

function rankOf({ health }: Origin): number {
  if (!health.usable()) return BACKING_OFF
  if (!health.passesChecks) return DOWN
  return health.avoided() ? AVOIDED : READY
}

function isBetter(one: Origin, other: Origin, rank: number): boolean {
  if (rank === BACKING_OFF) return one.health.retryAtMs < other.health.retryAtMs
  return loadOf(one) < loadOf(other)
}

function loadOf({ inFlight, health, slowStart }: Origin): number {
  return slowStart === undefined ? inFlight : inFlight / slowStart.share(health.recoveredAtMs)
}
