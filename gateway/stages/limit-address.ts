import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { readPath } from './admit.ts'

/**
 * Refuses an address that sends more than `addressRate` allows, before `admit`, so that bad requests count too. Unreadable
 * ones end their connection and do not tell which client behind a proxy sent them, so they do not count.
 */
export function limitAddress(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const { addressRate, steadyClock } = gateway
  if (addressRate === undefined) return undefined
  const take = addressRate.take(limitKey('address', undefined, exchange.address), steadyClock())
  if (take.allowed) return undefined
  readPath(gateway, exchange)
  return refusal('address_rate_exceeded', { headers: ['Retry-After', String(take.resetSeconds)] })
}
