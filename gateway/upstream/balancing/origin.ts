import type { Address } from '../upstream-address.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { Health } from './health.ts'

/** One upstream and its state. */
export interface Origin {
  /** As configured. */
  readonly url: string
  readonly health: Health
  /** Exchanges in flight. Written by the exchanges. */
  inFlight: number
}

export function createOrigin(
  { url }: Address,
  { clock, onHealth }: Pick<UpstreamsOptions, 'clock' | 'onHealth'>,
): Origin {
  return { url, health: new Health(clock, (healthy) => onHealth(url, healthy)), inFlight: 0 }
}
