import { parseAddress } from './address.ts'
import { Health } from './health.ts'
import { Lanes } from './lanes.ts'

/** What every upstream of a gateway has in common. Times in milliseconds. */
export interface OriginOptions {
  readonly connectMs: number
  readonly maxConnections: number
  readonly clock: () => number
  readonly onHealth: (upstream: string, healthy: boolean) => void
}

/** One upstream: what is known of it, and the connections to it. */
export interface Origin {
  /** As configured. */
  readonly url: string
  readonly health: Health
  readonly lanes: Lanes
  /** Exchanges under way. Written by the exchanges. */
  inFlight: number
}

/** @throws TypeError when `url` is not one of an upstream. */
export function createOrigin(url: string, options: OriginOptions): Origin {
  const address = parseAddress(url)
  const { connectMs, maxConnections, clock, onHealth } = options
  const health = new Health(clock, (healthy) => onHealth(url, healthy))
  return { url, health, lanes: new Lanes({ address, connectMs, maxConnections, health }), inFlight: 0 }
}
