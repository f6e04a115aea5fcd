import { isOverShare } from '../edge/rules/fair-share.ts'

export interface Share {
  permits: number
  /** A proxy acts for many callers, so its share is not limited. */
  readonly isProxy: boolean
}

/**
 * Limits the exchanges that use the upstream at a time. When few permits are left, a caller that holds more than its
 * share is refused and others are not.
 */
export class UpstreamPermits {
  readonly #named = new Map<string, Share>()
  #max: number
  #taken = 0

  /** @param max exchanges at a time */
  constructor(max: number) {
    this.#max = max
  }

  /** More may be taken already: they are given back one by one. */
  bound(max: number): void {
    this.#max = max
  }

  get taken(): number {
    return this.#taken
  }

  /** Every new caller is refused. */
  get areExhausted(): boolean {
    return this.#taken >= this.#max
  }

  /** The share of a caller named by a proxy. Use it at once: it is only kept while it holds permits. */
  shareOf(network: string): Share {
    let share = this.#named.get(network)
    if (share === undefined) {
      share = new NamedShare(network)
      this.#named.set(network, share)
    }
    return share
  }

  /** @returns false when refused */
  take(share: Share): boolean {
    const max = this.#max
    const free = max - this.#taken
    const isRefused = free <= 0 || (!share.isProxy && isOverShare({ own: share.permits, free, max }))
    if (isRefused) this.#forget(share)
    else {
      share.permits++
      this.#taken++
    }
    return !isRefused
  }

  release(share: Share): void {
    share.permits--
    this.#taken--
    this.#forget(share)
  }

  /** A share without permits need not be known by its name. */
  #forget(share: Share): void {
    if (share.permits === 0 && share instanceof NamedShare) this.#named.delete(share.network)
  }
}

class NamedShare implements Share {
  permits = 0
  readonly isProxy = false
  readonly network: string

  constructor(network: string) {
    this.network = network
  }
}
