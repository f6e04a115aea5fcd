import { isOverShare } from '../http/rules/fair-share.ts'

/** What one caller takes of the places that all have in common. */
export interface Share {
  places: number
  /** It stands for many callers: nothing is held against it. */
  readonly isProxy: boolean
}

interface Options {
  /** At once, over all threads. */
  readonly max: number
  readonly threads: number
  /** How many are taken in other threads; none when left out. */
  readonly elsewhere?: () => number
  /** Tells other threads how many are taken here. */
  readonly publish?: (count: number) => void
}

/**
 * The places for exchanges that use the upstream. Near the end of them nobody has more than its share: whoever takes all
 * it can get is refused, and others are not.
 */
export class UpstreamPlaces {
  readonly #options: Options
  readonly #named = new Map<string, Share>()
  #taken = 0

  constructor(options: Options) {
    this.#options = options
  }

  get taken(): number {
    return this.#taken
  }

  /** Whoever comes is refused. */
  get areFull(): boolean {
    return this.#taken + this.#elsewhere >= this.#options.max
  }

  get #elsewhere(): number {
    return this.#options.elsewhere?.() ?? 0
  }

  /** Of a caller whom a proxy names. To be used at once: it is only kept while it has places. */
  shareOf(network: string): Share {
    let share = this.#named.get(network)
    if (share === undefined) {
      share = new NamedShare(network)
      this.#named.set(network, share)
    }
    return share
  }

  /** @returns whether there was one. Each thread knows only its own callers, and takes them to be as many elsewhere. */
  take(share: Share): boolean {
    const { max, threads } = this.#options
    // First: of two threads that see the last one go none may have it, but never both.
    this.#change(share, 1)
    const free = max - (this.#taken - 1 + this.#elsewhere)
    const isOver = !share.isProxy && isOverShare({ own: (share.places - 1) * threads, free, max })
    if (free > 0 && !isOver) return true
    this.#change(share, -1)
    return false
  }

  release(share: Share): void {
    this.#change(share, -1)
  }

  #change(share: Share, by: number): void {
    share.places += by
    this.#taken += by
    if (share.places === 0 && share instanceof NamedShare) this.#named.delete(share.network)
    this.#options.publish?.(this.#taken)
  }
}

class NamedShare implements Share {
  places = 0
  readonly isProxy = false
  readonly network: string

  constructor(network: string) {
    this.network = network
  }
}
