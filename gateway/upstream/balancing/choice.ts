import type { Origin } from './origin.ts'

/** Chooses the upstream for each attempt. */
export class Choice<Kind extends Origin> {
  readonly origins: readonly Kind[]
  /** The upstream that a call names before it has a connection. */
  readonly first: Kind
  #turn = 0

  /** @throws TypeError when there is no upstream. */
  constructor(origins: readonly Kind[]) {
    const [first] = origins
    if (first === undefined) throw new TypeError('upstreams: at least one is needed')
    this.origins = origins
    this.first = first
  }

  /**
   * The usable upstream with the fewest exchanges in flight, in turn among equals. Avoided upstreams come after all
   * others. When none is usable, the one whose back-off ends first.
   *
   * @returns undefined when all are in `tried`.
   */
  next(tried: readonly Kind[]): Kind | undefined {
    const { origins } = this
    this.#turn = (this.#turn + 1) % origins.length
    let best: Kind | undefined
    let avoided: Kind | undefined
    let soonest: Kind | undefined
    for (let i = 0; i < origins.length; i++) {
      const origin = origins[(this.#turn + i) % origins.length] as Kind
      if (tried.includes(origin)) continue
      if (origin.health.usable()) {
        if (origin.health.avoided()) {
          if (avoided === undefined || origin.inFlight < avoided.inFlight) avoided = origin
        } else if (best === undefined || origin.inFlight < best.inFlight) best = origin
      } else if (soonest === undefined || origin.health.retryAtMs < soonest.health.retryAtMs) soonest = origin
    }
    const chosen = best ?? avoided ?? soonest
    chosen?.health.chosen()
    return chosen
  }
}
