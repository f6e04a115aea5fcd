import type { Address } from '../upstream-address.ts'
import type { UpstreamsOptions } from '../upstream-options.ts'
import { Health } from './health.ts'

/** One upstream and its state. */
export interface Origin<Pool = unknown> {
  /** As configured. */
  readonly url: string
  readonly health: Health
  /** Its connections. */
  readonly pool: Pool
  /** Exchanges in flight. Written by the exchanges. */
  inFlight: number
}

export function createOrigin<Pool>(
  address: Address,
  { clock, onHealth }: UpstreamsOptions,
  createPool: (health: Health) => Pool,
): Origin<Pool> {
  const { url } = address
  const health = new Health(clock, (healthy) => onHealth(url, healthy))
  return { url, health, pool: createPool(health), inFlight: 0 }
}
