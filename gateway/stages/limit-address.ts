import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { readPath } from './admit.ts'

/**
 * Refuses an address that sends more requests than `addressRate` allows, whatever they ask for: first of all, so
 * that those count too that are refused for their target or framing. What cannot be read as a request does not count: it
 * names no client behind a proxy, and ends its connection. Off unless it is configured.
 */
export function limitAddress({ addressRate, steadyClock }: Gateway, exchange: Exchange): Refusal | undefined {
  if (addressRate === undefined) return undefined
  const take = addressRate.take(limitKey('address', undefined, exchange.address), steadyClock())
  if (take.allowed) return undefined
  readPath(exchange)
  return refusal('address_rate_exceeded', { headers: ['Retry-After', String(take.resetSeconds)] })
}
