import type { Lane, LanedOrigin } from '../undici/undici-pool.ts'
import type { Choice } from './choice.ts'

const NONE_TRIED: readonly LanedOrigin[] = []

/** Where an exchange is carried out: the upstream it was given, and the lane to it. One attempt after the other. */
export class Berth {
  readonly #choice: Choice<LanedOrigin>
  #origin: LanedOrigin
  #lane: Lane | undefined = undefined
  /** Upstreams that could not be connected to, or had no lane free. */
  #tried: readonly LanedOrigin[] = NONE_TRIED

  /** @param first what `origin` says until a berth is taken. */
  constructor(choice: Choice<LanedOrigin>, first: LanedOrigin) {
    this.#choice = choice
    this.#origin = first
  }

  /** The last taken. */
  get origin(): LanedOrigin {
    return this.#origin
  }

  get lane(): Lane | undefined {
    return this.#lane
  }

  /** Takes a lane to the next upstream, if there is one left. @param fresh prefer a new connection. */
  take(fresh: boolean): void {
    for (
      let origin = this.#choice.next(this.#tried);
      origin !== undefined;
      origin = this.#choice.next(this.#tried)
    ) {
      this.#origin = origin
      this.#lane = origin.lanes.lease(fresh)
      if (this.#lane !== undefined) {
        origin.inFlight += 1
        return
      }
      this.passOver()
    }
  }

  /** Leaves the last taken upstream out of what `take` tries. */
  passOver(): void {
    this.#tried = [...this.#tried, this.#origin]
  }

  /**
   * Gives the lane back, if there is one.
   *
   * @param sound whether undici holds no request on it any more, and its connection can take another.
   */
  leave(sound: boolean): void {
    const lane = this.#lane
    if (lane === undefined) return
    this.#lane = undefined
    this.#origin.inFlight -= 1
    if (sound) this.#origin.lanes.release(lane)
    else this.#origin.lanes.discard(lane)
  }
}
