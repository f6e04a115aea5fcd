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

  constructor(guard: DeliveryGuard) {
    this.#guard = guard
  }

  /** Begins a delivery. A caller that gets no fault must call `end` later. */
  begin(delivery: Delivery): ReplayFault | undefined | Promise<ReplayFault | undefined> {
    const { keys, sender } = delivery
    if (keys.some((key) => this.#inProgress.has(key))) return 'replayed'
    for (const key of keys) this.#inProgress.add(key)
    const found = keys.map((key) => this.#guard.lookUp(key, sender))
    const settle = (faults: readonly (ReplayFault | undefined)[]) => {
      const fault = faults.includes('replayed') ? 'replayed' : faults.find((one) => one !== undefined)
      if (fault !== undefined) this.end(delivery, false)
      return fault
    }
    return found.some((one) => one instanceof Promise)
      ? Promise.all(found).then(settle)
      : settle(found as (ReplayFault | undefined)[])
  }

  /** @param isTaken true when the service has answered 2xx */
  end({ keys, sender }: Delivery, isTaken: boolean): void {
    for (const key of keys) {
      this.#inProgress.delete(key)
      if (isTaken) this.#guard.keep(key, sender)
    }
  }

  maintain(): void {
    this.#guard.maintain()
  }
}
