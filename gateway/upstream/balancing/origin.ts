import type { Address } from '../upstream-address.ts'
import { Health } from './health.ts'

/** What every upstream of a gateway has in common. Times in milliseconds. */
export interface OriginOptions {
  readonly connectMs: number
  readonly maxConnections: number
  readonly clock: () => number
  readonly onHealth: (upstream: string, healthy: boolean) => void
}

/** One upstream, and what is known of it. */
export interface Origin {
  /** As configured. */
  readonly url: string
  readonly health: Health
  /** Exchanges under way. Written by the exchanges. */
  inFlight: number
}

export function createOrigin({ url }: Address, { clock, onHealth }: OriginOptions): Origin {
  return { url, health: new Health(clock, (healthy) => onHealth(url, healthy)), inFlight: 0 }
}
