import { andThen } from '../refusals.ts'
import type { DeliveryGuard, ReplayFault } from './replay.ts'

export interface Delivery {
  /** Another delivery with one of these keys is a copy. */
  readonly keys: readonly string[]
  /** Each sender has a share of the memory. */
  readonly sender: string
}

export const DELIVERY_LIFETIME_MS = 24 * 3_600_000

/** Finds copies of webhooks. Only a webhook that got a 2xx is remembered: others may come again. */
export class Deliveries {
  readonly #guard: DeliveryGuard
  readonly #inProgress = new Set<string>()
  /** Keys in progress at the old process of a restart. That process tells how they end. */
  readonly #inherited = new Set<string>()
  /** Reports each delivery that ends here to the process that has the files. */
  otherProcess: ((delivery: Delivery, isTaken: boolean) => void) | undefined

  constructor(guard: DeliveryGuard) {
    this.#guard = guard
  }

  get inProgress(): readonly string[] {
    return [...this.#inProgress]
  }

  /** A caller that gets no fault must call `end` later. */
  begin(delivery: Delivery): ReplayFault | undefined | Promise<ReplayFault | undefined> {
    const { keys, sender } = delivery
    if (keys.some((key) => this.#inProgress.has(key))) return 'replayed'
    // The other process may have begun a copy.
    if (this.otherProcess !== undefined) return 'unwritable'
    for (const key of keys) this.#inProgress.add(key)
    return andThen(this.#guard.begin(keys, sender), (fault) => {
      if (fault !== undefined) this.end(delivery, false)
      return fault
    })
  }

  /** @param isTaken true when the service has answered 2xx */
  end(delivery: Delivery, isTaken: boolean): void {
    const { keys, sender } = delivery
    for (const key of keys) {
      this.#inProgress.delete(key)
      this.#inherited.delete(key)
    }
    this.#guard.end(keys, sender, isTaken)
    this.otherProcess?.(delivery, isTaken)
  }

  /** Refuses copies of what the old process has in progress, until `end` or `release`. */
  inherit(keys: readonly string[]): void {
    for (const key of keys) {
      this.#inProgress.add(key)
      this.#inherited.add(key)
    }
  }

  release(): void {
    for (const key of this.#inherited) this.#inProgress.delete(key)
    this.#inherited.clear()
  }

  maintain(): void {
    this.#guard.maintain()
  }
}
