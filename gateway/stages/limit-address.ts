import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/key.ts'
import { type Refusal, refusal } from '../refusals.ts'

/**
 * Refuses an address that sends more requests than `addressRate` allows, whatever they ask for: before a route is looked
 * up, a credential is checked or a long record is written. Off unless it is configured.
 */
export function limitAddress({ addressRate, steadyClock }: Gateway, exchange: Exchange): Refusal | undefined {
  if (addressRate === undefined) return undefined
  const take = addressRate.take(limitKey('address', undefined, exchange.address), steadyClock())
  if (take.allowed) return undefined
  return refusal('address_rate_exceeded', { headers: ['Retry-After', String(take.resetSeconds)] })
}
