import { isOverShare } from '../http/rules/fair-share.ts'

/** The permits that one caller holds. */
export interface Share {
  permits: number
  /** A proxy acts for many callers, so its share is not limited. */
  readonly isProxy: boolean
}

interface Options {
  /** Exchanges at a time, in all workers together. */
  readonly max: number
  readonly threads: number
  /** How many are in flight on other workers. Default 0. */
  readonly takenByOthers?: () => number
  /** Tells the other workers how many are taken here. */
  readonly publish?: (count: number) => void
}

/**
 * Limits the exchanges that use the upstream at a time. When few permits are left, a caller that holds more than its
 * share is refused and others are not.
 */
export class UpstreamPermits {
  readonly #options: Options
  readonly #named = new Map<string, Share>()
  #max: number
  #taken = 0

  constructor(options: Options) {
    this.#options = options
    this.#max = options.max
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
    return this.#taken + this.#takenByOthers >= this.#max
  }

  get #takenByOthers(): number {
    return this.#options.takenByOthers?.() ?? 0
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

  /** @returns false when refused. A worker knows only its own callers, and assumes the same number on each other worker. */
  take(share: Share): boolean {
    const { threads } = this.#options
    const max = this.#max
    // Count first: two workers that race for the last permit may both be refused, but never both get it.
    this.#change(share, 1)
    const free = max - (this.#taken - 1 + this.#takenByOthers)
    const isOver = !share.isProxy && isOverShare({ own: (share.permits - 1) * threads, free, max })
    if (free > 0 && !isOver) return true
    this.#change(share, -1)
    return false
  }

  release(share: Share): void {
    this.#change(share, -1)
  }

  #change(share: Share, by: number): void {
    share.permits += by
    this.#taken += by
    if (share.permits === 0 && share instanceof NamedShare) this.#named.delete(share.network)
    this.#options.publish?.(this.#taken)
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
