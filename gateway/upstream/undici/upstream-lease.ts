import type { Choice } from '../balancing/choice.ts'
import type { PooledClient, UndiciOrigin } from './undici-pool.ts'

const NONE_TRIED: readonly UndiciOrigin[] = []

/** The upstream and the pooled client that an exchange uses, one attempt after the other. */
export class UpstreamLease {
  readonly #choice: Choice<UndiciOrigin>
  #origin: UndiciOrigin
  #pooled: PooledClient | undefined = undefined
  /** Upstreams that could not be connected to, or had no client free. */
  #tried: readonly UndiciOrigin[] = NONE_TRIED

  /** @param first what `origin` is before the first `take`. */
  constructor(choice: Choice<UndiciOrigin>, first: UndiciOrigin) {
    this.#choice = choice
    this.#origin = first
  }

  /** The upstream taken last. */
  get origin(): UndiciOrigin {
    return this.#origin
  }

  get pooled(): PooledClient | undefined {
    return this.#pooled
  }

  /** Takes a client of the next upstream that has one. @param fresh prefer a new connection. */
  take(fresh: boolean): void {
    for (
      let origin = this.#choice.next(this.#tried);
      origin !== undefined;
      origin = this.#choice.next(this.#tried)
    ) {
      this.#origin = origin
      this.#pooled = origin.pool.lease(fresh)
      if (this.#pooled !== undefined) {
        origin.inFlight += 1
        return
      }
      this.excludeOrigin()
    }
  }

  /** `take` no longer tries the upstream taken last. */
  excludeOrigin(): void {
    this.#tried = [...this.#tried, this.#origin]
  }

  /**
   * Gives the client back, if there is one.
   *
   * @param reusable undici holds no request on it any more, and its connection can take another.
   */
  end(reusable: boolean): void {
    const pooled = this.#pooled
    if (pooled === undefined) return
    this.#pooled = undefined
    this.#origin.inFlight -= 1
    if (reusable) this.#origin.pool.release(pooled)
    else this.#origin.pool.discard(pooled)
  }
}
