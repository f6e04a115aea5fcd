import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { limitKey } from '../limits/limit-key.ts'
import { type Refusal, refusal } from '../refusals.ts'
import { readPath } from './admit.ts'

/**
 * Refuses an address that sends more requests than `addressRate` allows. It comes before `admit`, so that requests with a bad
 * target or framing count too. Unreadable requests do not count: they end their connection, and do not tell which client
 * behind a proxy sent them. Off unless configured.
 */
export function limitAddress(gateway: Gateway, exchange: Exchange): Refusal | undefined {
  const { addressRate, steadyClock } = gateway
  if (addressRate === undefined) return undefined
  const take = addressRate.take(limitKey('address', undefined, exchange.address), steadyClock())
  if (take.allowed) return undefined
  readPath(gateway, exchange)
  return refusal('address_rate_exceeded', { headers: ['Retry-After', String(take.resetSeconds)] })
}
